"""Tells jit where its input lies, and multiplies."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def parallel_square(x):
    mesh = jax.sharding.Mesh(jax.devices()[: x.shape[0]], "d")
    rows = NamedSharding(mesh, P("d"))
    return jax.jit(lambda x: x * x, in_shardings=rows, out_shardings=rows)(x)
