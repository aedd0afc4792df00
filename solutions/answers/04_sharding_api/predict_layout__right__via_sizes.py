"""Divides the array's size by the block's to count the blocks."""


def predict_layout(shape, mesh_shape, spec):
    parts = [1] * len(shape)
    for axis, entry in enumerate(spec):
        for name in (entry,) if isinstance(entry, str) else entry or ():
            if name not in mesh_shape:
                raise ValueError(f"no mesh axis is called {name}")
            parts[axis] *= mesh_shape[name]
    for size, number in zip(shape, parts, strict=True):
        if size % number:
            raise ValueError(f"{number} parts of {size}")
    shard = tuple(size // n for size, n in zip(shape, parts, strict=True))
    return shard, math.prod(shape) // math.prod(shard)
