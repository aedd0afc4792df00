"""Takes a name that the mesh lacks for an axis of one device.

Told: none
Fails: the unknown axis is named
"""


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = list(shape), 1
    for axis, names in enumerate(spec):
        names = (names,) if isinstance(names, str) else names or ()
        pass
        parts = math.prod(mesh_shape.get(name, 1) for name in names)
        if shape[axis] % parts:
            raise ValueError(f"{shape[axis]} does not divide by {parts}")
        shard[axis] //= parts
        distinct *= parts
    return tuple(shard), distinct
