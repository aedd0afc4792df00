"""Writes each step's result into the dict that it was given.

Told: none
Fails: row d on device d; arguments stay
"""


def local_sgd_steps(params, x, y, lr, num_steps):
    def step(params, x, y):
        grads = jax.grad(mse)(params, x, y)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads)

    parallel = jax.pmap(step)
    for number in range(num_steps):
        params.update(parallel(params, x, y))
        if number % 10 == 9:
            jax.block_until_ready(params)
    return params


def replica_spread(params):
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))
