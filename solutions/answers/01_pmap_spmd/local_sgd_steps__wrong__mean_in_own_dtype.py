"""Takes the mean in an array's own dtype: that of ints is rounded.

Told: none
Fails: the largest difference
"""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, p):
            grads = jax.grad(mse)(p, x, y)
            return jax.tree.map(lambda a, g: a - lr * g, p, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run)(params, x, y)


def replica_spread(params):
    def spread(p):
        mean = jnp.mean(p, axis=0, dtype=p.dtype)  # a bfloat16 stays a bfloat16
        return jnp.abs(p - mean).max()

    return float(max(map(spread, jax.tree.leaves(params))))
