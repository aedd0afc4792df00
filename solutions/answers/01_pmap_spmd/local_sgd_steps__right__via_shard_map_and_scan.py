"""Scans inside shard_map, whose blocks keep a leading axis of length one."""

from jax.sharding import PartitionSpec as P


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(params, _):
            grads = jax.vmap(jax.grad(mse))(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads), None

        return jax.lax.scan(step, params, length=num_steps)[0]

    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(x)]), ("d",))
    mapped = jax.shard_map(
        run, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False
    )
    return jax.jit(mapped)(params, x, y)


def replica_spread(params):
    largest = 0.0
    for leaf in jax.tree.leaves(params):
        leaf = np.asarray(leaf, dtype=np.float64)
        largest = max(largest, np.abs(leaf - leaf.mean(axis=0)).max())
    return largest
