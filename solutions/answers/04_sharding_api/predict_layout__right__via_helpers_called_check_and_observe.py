"""Has helpers with the names of the check's own: `check`, `expect`, `observe`."""


def observe(entry):
    return (entry,) if isinstance(entry, str) else tuple(entry or ())


def expect(holds, text):
    if not holds:
        raise ValueError(text)


def check(size, parts):
    expect(size % parts == 0, f"size {size} does not divide by {parts}")
    return size // parts


def predict_layout(shape, mesh_shape, spec):
    entries = [*map(observe, spec), *[()] * (len(shape) - len(spec))]
    for name in (name for names in entries for name in names):
        expect(name in mesh_shape, f"unknown mesh axis {name!r}")
    parts = [math.prod(mesh_shape[name] for name in names) for names in entries]
    return tuple(map(check, shape, parts)), math.prod(parts)
