"""Writes an entry into the caller's dict, and leaves it there where it raises.

Told: none
Fails: arguments stay
"""


def predict_layout(shape, mesh_shape, spec):
    mesh_shape[None] = 1
    spec = tuple(spec) + (None,) * (len(shape) - len(spec))
    block, distinct = [], 1
    for size, entry in zip(shape, spec, strict=False):
        names = entry if isinstance(entry, tuple) else (entry,)
        parts = 1
        for name in names:
            if name not in mesh_shape:
                raise ValueError(f"no mesh axis {name!r}")
            parts *= mesh_shape[name]
        if size % parts:
            raise ValueError(f"{size} does not divide into {parts} parts")
        block.append(size // parts)
        distinct *= parts
    del mesh_shape[None]
    return tuple(block), distinct
