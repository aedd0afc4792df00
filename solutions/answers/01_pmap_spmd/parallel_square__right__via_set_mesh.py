"""Sets a mesh, whose axes are explicit in newer versions of JAX."""

from jax.sharding import PartitionSpec as P


def parallel_square(x):
    mesh = jax.make_mesh((len(x),), ("rows",), devices=jax.devices()[: len(x)])
    with jax.set_mesh(mesh):
        return jnp.square(jax.device_put(x, P("rows")))
