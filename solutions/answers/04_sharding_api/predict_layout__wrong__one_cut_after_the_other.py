"""Cuts by one name of a tuple after the other: the error names a part of the cut.

Told: none
Fails: size and parts are named
"""


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = list(shape), 1
    for axis, names in enumerate(spec):
        for name in (names,) if isinstance(names, str) else names or ():
            if name not in mesh_shape:
                raise ValueError(f"unknown {name}")
            if shard[axis] % mesh_shape[name]:
                raise ValueError(f"{shard[axis]} does not divide by {mesh_shape[name]}")
            shard[axis] //= mesh_shape[name]
            distinct *= mesh_shape[name]
    return tuple(shard), distinct
