"""Takes the spread for a standard deviation, which hides a single stray replica.

Told: it is a standard deviation
Fails: the largest difference
"""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run)(params, x, y)


def replica_spread(params):
    return float(max(np.std(leaf, axis=0).max() for leaf in jax.tree.leaves(params)))
