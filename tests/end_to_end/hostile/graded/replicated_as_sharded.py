"""Copies the whole result to each device: eight pieces, but none of them a row."""

from hostile.build import FULL, solved

POINTS = FULL | {"parallel_square": 0}
TAMPERING = True

SQUARE = """
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def parallel_square(x):
    mesh = Mesh(np.array(jax.devices()[: len(x)]), ("rows",))
    return jax.device_put(jnp.square(x), NamedSharding(mesh, P()))
"""


def submission(lesson):
    return solved(lesson, parallel_square=SQUARE)
