"""Sets a mesh, and maps one step over its axis by shard_map."""

from jax.sharding import PartitionSpec as P


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def check(params, _):
            grads = jax.vmap(jax.grad(mse))(params, x, y)
            return {k: params[k] - lr * grads[k] for k in params}, None

        return jax.lax.scan(check, params, jnp.arange(num_steps))[0]

    mesh = jax.make_mesh((len(x),), ("i",), devices=jax.devices()[: len(x)])
    with jax.set_mesh(mesh):
        arrays = jax.device_put((params, x, y), P("i"))
        mapped = jax.shard_map(run, in_specs=P("i"), out_specs=P("i"))
        return jax.jit(mapped)(*arrays)


def replica_spread(params):
    off = jax.tree.map(lambda p: np.ptp([np.abs(p - p.mean(0)).max(), 0]), params)
    return max(jax.tree.leaves(off))
