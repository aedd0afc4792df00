"""Asks JAX, on a mesh without devices."""

from jax.sharding import AbstractMesh


def predict_layout(shape, mesh_shape, spec):
    mesh = AbstractMesh(tuple(mesh_shape.values()), tuple(mesh_shape))
    shard = tuple(NamedSharding(mesh, P(*spec)).shard_shape(shape))
    return shard, math.prod(shape) // math.prod(shard)
