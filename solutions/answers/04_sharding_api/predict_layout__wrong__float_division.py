"""Divides with /: floats round large sizes.

Told: none
Fails: the block's shape and how many differ; size and parts are named
"""


def predict_layout(shape, mesh_shape, spec):
    block, distinct = list(shape), 1
    for i, entry in enumerate(spec):
        names = () if entry is None else entry if isinstance(entry, tuple) else (entry,)
        for name in names:
            if name not in mesh_shape:
                raise ValueError(f"unknown mesh axis {name!r}")
        parts = math.prod(mesh_shape[name] for name in names)
        size = shape[i] / parts
        if not size.is_integer():
            raise ValueError(f"{shape[i]} does not divide by {parts}")
        block[i] = int(size)
        distinct *= parts
    return tuple(block), distinct
