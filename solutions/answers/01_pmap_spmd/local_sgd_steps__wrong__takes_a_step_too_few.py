"""Counts from 1, and so takes a step less.

Told: one step is missing
Fails: each device descends
"""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(1, num_steps, step, params)

    return jax.pmap(run)(params, x, y)


def replica_spread(params):
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))
