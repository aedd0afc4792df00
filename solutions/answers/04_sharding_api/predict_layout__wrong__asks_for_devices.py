"""Makes a real mesh and asks its sharding: no mesh larger than this machine.

Told: none
Fails: missing entries are None; no device is needed; size and parts are named
"""


def predict_layout(shape, mesh_shape, spec):
    mesh = make_mesh(tuple(mesh_shape.values()), tuple(mesh_shape))
    shard = NamedSharding(mesh, P(*spec)).shard_shape(shape)
    return tuple(shard), math.prod(shape) // math.prod(shard)
