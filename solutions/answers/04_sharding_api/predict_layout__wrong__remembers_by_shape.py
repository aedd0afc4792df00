"""Keeps what it found for a spec, whatever the array and the mesh are.

Told: none
Fails: the block's shape and how many differ; nothing is remembered
"""

known = {}


def predict_layout(shape, mesh_shape, spec):
    cuts = []
    for axis, names in enumerate(spec):
        names = (names,) if isinstance(names, str) else names or ()
        for name in names:
            if name not in mesh_shape:
                raise ValueError(f"unknown {name}")
        parts = math.prod(mesh_shape[name] for name in names)
        if shape[axis] % parts:
            raise ValueError(f"{shape[axis]} does not divide by {parts}")
        cuts.append(parts)
    cuts = known.setdefault((len(shape), spec), cuts)
    cuts = [*cuts, *[1] * (len(shape) - len(cuts))]
    return tuple(s // n for s, n in zip(shape, cuts, strict=True)), math.prod(cuts)
