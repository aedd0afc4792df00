"""Multiplies the different sizes of the axes in use: two axes of two are one.

Told: none
Fails: the block's shape and how many differ; nothing is remembered
"""


def predict_layout(shape, mesh_shape, spec):
    out, used = list(shape), set()
    for i, entry in enumerate(spec):
        names = (entry,) if isinstance(entry, str) else (entry or ())
        for n in names:
            if n not in mesh_shape:
                raise ValueError(f"unknown {n}")
        parts = math.prod(mesh_shape[n] for n in names)
        if out[i] % parts:
            raise ValueError(f"{out[i]} / {parts}")
        out[i] //= parts
        used |= {mesh_shape[n] for n in names}
    return tuple(out), math.prod(used)
