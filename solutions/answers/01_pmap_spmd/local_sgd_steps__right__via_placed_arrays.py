"""Places rows on a mesh, and maps a compiled loop by vmap."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def local_sgd_steps(params, x, y, lr, num_steps):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(x)]), ("d",))
    rows = NamedSharding(mesh, P("d"))
    gradient = jax.vmap(jax.grad(mse))

    @jax.jit
    def run(params, x, y):
        def step(_, params):
            grads = gradient(params, x, y)
            params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
            return jax.lax.with_sharding_constraint(params, rows)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return run(*jax.device_put((params, x, y), rows))


def replica_spread(params):
    largest = 0
    for leaf in jax.tree_util.tree_leaves(params):
        leaf = jnp.asarray(leaf)
        largest = jnp.maximum(largest, jnp.abs(leaf - leaf.mean(axis=0)).max())
    return largest.item()
