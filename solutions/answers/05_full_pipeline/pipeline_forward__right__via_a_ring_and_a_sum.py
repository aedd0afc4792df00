"""Sends round a ring, and sums the last device's results."""


def pipeline_forward(stage_params, microbatches):
    num_stages, count = len(stage_params["w"]), len(microbatches)
    mesh = jax.sharding.Mesh(np.asarray(jax.devices()[:num_stages]), ("stage",))

    def run(w, b, xs):
        me = jax.lax.axis_index("stage")

        def tick(time, carry):
            left, results = carry
            x = jnp.where(me == 0, xs[jnp.clip(time, 0, count - 1)], left)
            y = stage({"w": w[0], "b": b[0]}, x)
            done = time - (num_stages - 1)
            results = jnp.where(
                (jnp.arange(count) == done)[:, None, None], y[None], results
            )
            ring = [(s, (s + 1) % num_stages) for s in range(num_stages)]
            return jax.lax.ppermute(y, "stage", perm=ring), results

        zeros = jnp.zeros_like(xs[0]), jnp.zeros_like(xs)
        results = jax.lax.fori_loop(0, count + num_stages - 1, tick, zeros)[1]
        return jax.lax.psum(results * (me == num_stages - 1), "stage")

    return jax.shard_map(
        run,
        mesh=mesh,
        in_specs=(P("stage"), P("stage"), P()),
        out_specs=P(),
        check_vma=False,
    )(stage_params["w"], stage_params["b"], microbatches)
