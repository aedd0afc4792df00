"""Measures the first array only: a drifting bias goes unseen.

Told: none
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
    leaf = jax.tree.leaves(params)[-1]
    return float(np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max())
