"""Cuts the first axis, then the others, by a function that calls itself."""


def predict_layout(shape, mesh_shape, spec):
    if not shape:
        return (), 1
    match spec[0] if spec else None:
        case None:
            names = ()
        case str() as name:
            names = (name,)
        case names:
            pass
    if unknown := [name for name in names if name not in mesh_shape]:
        raise ValueError(f"{', '.join(unknown)}: not among {list(mesh_shape)}")
    parts = functools.reduce(lambda n, name: n * mesh_shape[name], names, 1)
    size, rest = divmod(shape[0], parts)
    if rest:
        raise ValueError(f"axis of size {shape[0]}, {parts} parts")
    shard, distinct = predict_layout(shape[1:], mesh_shape, spec[1:])
    return (size, *shard), parts * distinct
