"""Adds the cure too early: with a pmean the replicas stay together; on one device
nobody can tell.

Told: gradients were averaged
Fails: each device descends; no communication
"""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.lax.pmean(jax.grad(mse)(params, x, y), "d")
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run, axis_name="d")(params, x, y)


def replica_spread(params):
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))
