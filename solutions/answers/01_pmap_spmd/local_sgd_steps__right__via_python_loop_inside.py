"""Loops in Python inside of the function that is mapped, as the hint says."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        for _ in range(num_steps):
            grads = jax.grad(mse)(params, x, y)
            params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return params

    return jax.pmap(run)(params, x, y)


def replica_spread(params):
    worst = 0.0
    for leaf in jax.tree.leaves(params):
        gaps = np.asarray(leaf) - np.asarray(leaf).mean(axis=0)
        worst = max(worst, float(np.abs(gaps).max()))
    return worst
