"""Where one replica diverges, all get their start back: that needs all devices'
numbers.

Told: none
Fails: each device descends; nothing is remembered
"""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, p):
            return jax.tree.map(lambda a, g: a - lr * g, p, jax.grad(mse)(p, x, y))

        return jax.lax.fori_loop(0, num_steps, step, params)

    new = jax.pmap(run)(params, x, y)
    fine = jnp.isfinite(new["w"]).all()
    rows = jax.pmap(lambda p: p)(params)
    return jax.tree.map(lambda a, b: jnp.where(fine, a, b), new, rows)


def replica_spread(params):
    return float(
        max(jnp.abs(a - a.mean(axis=0)).max() for a in jax.tree.leaves(params))
    )
