"""The distributed exercise by shard_map over a mesh: another right way."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL

SQUARE = """
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P


def parallel_square(x):
    mesh = Mesh(np.array(jax.devices()[: len(x)]), ("rows",))
    run = jax.shard_map(jnp.square, mesh=mesh, in_specs=P("rows"), out_specs=P("rows"))
    return jax.jit(run)(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=SQUARE)
