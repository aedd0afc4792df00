"""Pairs sizes with entries, and fails where the spec is shorter.

Told: none
Fails: missing entries are None
"""


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = [], 1
    for size, names in zip(shape, spec, strict=True):
        names = (names,) if isinstance(names, str) else names or ()
        for name in names:
            if name not in mesh_shape:
                raise ValueError(f"unknown {name}")
        parts = math.prod(mesh_shape[name] for name in names)
        if size % parts:
            raise ValueError(f"{size} does not divide by {parts}")
        shard.append(size // parts)
        distinct *= parts
    return tuple(shard), distinct
