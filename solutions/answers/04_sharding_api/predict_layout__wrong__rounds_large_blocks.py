"""Tests the remainder of whole numbers, and divides with /.

Told: none
Fails: the block's shape and how many differ
"""


def predict_layout(shape, mesh_shape, spec):
    block, num_distinct = list(shape), 1
    for axis, entry in enumerate(spec):
        names = () if entry is None else entry if isinstance(entry, tuple) else (entry,)
        parts = 1
        for name in names:
            if name not in mesh_shape:
                raise ValueError(f"the mesh has no axis {name!r}")
            parts *= mesh_shape[name]
        if shape[axis] % parts:
            raise ValueError(f"axis {axis} of size {shape[axis]} in {parts} parts")
        block[axis] = int(shape[axis] / parts)
        num_distinct *= parts
    return tuple(block), num_distinct
