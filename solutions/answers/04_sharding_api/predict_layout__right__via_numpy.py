"""Computes with NumPy's integers."""


def predict_layout(shape, mesh_shape, spec):
    parts = np.ones(len(shape), int)
    for axis, entry in enumerate(spec):
        for name in np.atleast_1d(entry) if entry else []:
            try:
                parts[axis] *= mesh_shape[str(name)]
            except KeyError:
                raise ValueError(f"no axis {name}") from None
    uneven = np.array(shape, int) % parts != 0
    if uneven.any():
        axis = uneven.argmax()
        raise ValueError(f"{shape[axis]} into {parts[axis]}")
    blocks = np.array(shape, int) // parts
    return tuple(int(size) for size in blocks), parts.prod()
