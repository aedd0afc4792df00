"""Loops over a pmapped step: after no step the caller's arrays come back.

Told: none
Fails: row d on device d
"""


def local_sgd_steps(params, x, y, lr, num_steps):
    def one(params, x, y):
        grads = jax.grad(mse)(params, x, y)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads)

    parallel = jax.pmap(one)
    for _ in range(num_steps):
        params = parallel(params, x, y)
        jax.block_until_ready(params)
    return params


def replica_spread(params):
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))
