"""Stands still where the gradient is small.

Told: none
Fails: each device descends; nothing is remembered
"""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, p):
            g = jax.grad(mse)(p, x, y)
            size = jnp.sqrt(jnp.sum(g["w"] ** 2) + g["b"] ** 2)
            return jax.tree.map(
                lambda a, d: jnp.where(size > 0.01, a - lr * d, a), p, g
            )

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run)(params, x, y)


def replica_spread(params):
    return float(max(jnp.abs(a - a.mean(0)).max() for a in jax.tree.leaves(params)))
