"""Trains all replicas on one device, and spreads them.

Told: none
Fails: row d on device d
"""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(x)]), ("d",))
    result = jax.vmap(run)(params, x, y)
    return jax.device_put(result, NamedSharding(mesh, P("d")))


def replica_spread(params):
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))
