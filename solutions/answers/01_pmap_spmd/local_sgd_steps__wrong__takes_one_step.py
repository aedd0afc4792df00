"""Forgets the loop: a single step, num_steps times as long.

Told: none
Fails: each device descends
"""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        grads = jax.grad(mse)(params, x, y)
        return jax.tree.map(lambda p, g: p - num_steps * lr * g, params, grads)

    return jax.pmap(run)(params, x, y)


def replica_spread(params):
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))
