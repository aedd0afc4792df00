"""Writes the example's mesh into the code.

Told: none
Fails: the block's shape and how many differ; no device is needed
"""


def predict_layout(shape, mesh_shape, spec):
    mesh_shape = {"data": 4, "model": 2}
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
    return tuple(shard), distinct
