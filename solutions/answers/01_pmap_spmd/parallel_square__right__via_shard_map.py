"""Uses today's name for the same thing."""

from jax.sharding import PartitionSpec as P


def parallel_square(x):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(x)]), ("d",))
    square = jax.shard_map(
        lambda block: block**2, mesh=mesh, in_specs=P("d"), out_specs=P("d")
    )
    return jax.jit(square)(x)
