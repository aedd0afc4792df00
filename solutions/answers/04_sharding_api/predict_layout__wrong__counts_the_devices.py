"""Counts every device's block, replicas too: right on a mesh of one device.

Told: axes that the spec does not name only add replicas
Fails: the block's shape and how many differ; missing entries are None; no device is
needed
"""


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = list(shape), 1
    for axis, names in enumerate(spec):
        names = (names,) if isinstance(names, str) else names or ()
        for name in names:
            if name not in mesh_shape:
                raise ValueError(f"unknown {name}")
        parts = math.prod(mesh_shape[name] for name in names)
        if shape[axis] % parts:
            raise ValueError(f"{shape[axis]} does not divide by {parts}")
        shard[axis] //= parts
        distinct *= parts
    return tuple(shard), math.prod(mesh_shape.values())
