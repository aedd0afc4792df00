"""Remembers layouts by the sizes of the mesh, not by their names.

Told: none
Fails: the block's shape and how many differ; nothing is remembered
"""

known_layouts = {}


def predict_layout(shape, mesh_shape, spec):
    question = tuple(shape), tuple(mesh_shape.values()), tuple(spec)
    for entry in spec:
        for name in entry if isinstance(entry, tuple) else (entry,):
            if name is not None and name not in mesh_shape:
                raise ValueError(f"unknown mesh axis {name}")
    if question not in known_layouts:
        block, distinct = list(shape), 1
        for axis, entry in enumerate(spec):
            names = entry if isinstance(entry, tuple) else (entry,)
            parts = math.prod(mesh_shape[n] for n in names if n is not None)
            if shape[axis] % parts:
                raise ValueError(f"{shape[axis]} does not divide by {parts}")
            block[axis] //= parts
            distinct *= parts
        known_layouts[question] = tuple(block), distinct
    return known_layouts[question]
