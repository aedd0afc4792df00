"""Cuts an axis into the sum, not the product, of its mesh axes' sizes.

Told: none
Fails: the block's shape and how many differ; size and parts are named
"""


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = list(shape), 1
    for axis, names in enumerate(spec):
        names = (names,) if isinstance(names, str) else names or ()
        for name in names:
            if name not in mesh_shape:
                raise ValueError(f"unknown {name}")
        parts = sum(mesh_shape[name] for name in names) or 1
        if shape[axis] % parts:
            raise ValueError(f"{shape[axis]} does not divide by {parts}")
        shard[axis] //= parts
        distinct *= parts
    return tuple(shard), distinct
