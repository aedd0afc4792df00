"""Looks for unknown names among single ones: in a tuple they are a KeyError.

Told: none
Fails: the unknown axis is named
"""


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = list(shape), 1
    for axis, names in enumerate(spec):
        if isinstance(names, str) and names not in mesh_shape:
            raise ValueError(f"unknown {names}")
        names = (names,) if isinstance(names, str) else names or ()
        parts = math.prod(mesh_shape[name] for name in names)
        if shape[axis] % parts:
            raise ValueError(f"{shape[axis]} does not divide by {parts}")
        shard[axis] //= parts
        distinct *= parts
    return tuple(shard), distinct
