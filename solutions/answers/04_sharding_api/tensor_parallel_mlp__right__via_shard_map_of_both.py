"""Lets the weights come out of a shard_map, too."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))
    ps = {"w1": P(None, None, "model"), "w2": P(None, "model")}
    f = jax.shard_map(
        lambda p, x: (
            p,
            jax.lax.scan(
                lambda x, w: (
                    jax.lax.psum(jax.nn.relu(x @ w["w1"]) @ w["w2"], "model"),
                    None,
                ),
                x,
                p,
            )[0],
        ),
        mesh=mesh,
        in_specs=(ps, P("data")),
        out_specs=(ps, P("data")),
    )
    return f(params, x)
