# %% wrong="adds the axes up" fails="block and count; mistakes raise"
"""Cuts an axis into the sum, not the product, of its mesh axes' sizes."""


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = list(shape), 1
    for axis, names in enumerate(spec):
        names = (names,) if isinstance(names, str) else names or ()
        for name in names:
            if name not in mesh_shape:
                raise ValueError(f"unknown {name}")
        parts = sum(mesh_shape[name] for name in names) or 1
        if shape[axis] % parts:
            raise ValueError(f"{shape[axis]} does not divide by {parts}")
        shard[axis] //= parts
        distinct *= parts
    return tuple(shard), distinct


# %% wrong="asks for devices" fails="no devices needed"
"""Makes a real mesh and asks its sharding: no mesh larger than this machine."""


def predict_layout(shape, mesh_shape, spec):
    mesh = make_mesh(tuple(mesh_shape.values()), tuple(mesh_shape))
    shard = NamedSharding(mesh, P(*spec)).shard_shape(shape)
    return tuple(shard), math.prod(shape) // math.prod(shard)


# %% wrong="cache by sizes" fails="block and count"
"""Remembers layouts by the sizes of the mesh, not by their names."""

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


# %% wrong="counts the devices" fails="block and count; no devices needed; short specs"
# cause: axes that the spec does not name only add replicas
"""Counts every device's block, replicas too: right on a mesh of one device."""


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = list(shape), 1
    for axis, names in enumerate(spec):
        names = (names,) if isinstance(names, str) else names or ()
        for name in names:
            if name not in mesh_shape:
                raise ValueError(f"unknown {name}")
        parts = math.prod(mesh_shape[name] for name in names)
        if shape[axis] % parts:
            raise ValueError(f"{shape[axis]} does not divide by {parts}")
        shard[axis] //= parts
        distinct *= parts
    return tuple(shard), math.prod(mesh_shape.values())


# %% wrong="equal sizes count once" fails="block and count"
"""Multiplies the different sizes of the axes in use: two axes of two are one."""


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


# %% wrong="first of a tuple" fails="block and count; mistakes raise"
# cause: a tuple of names cuts by the product of their sizes
"""Splits by the first mesh axis of a tuple alone."""


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = list(shape), 1
    for axis, names in enumerate(spec):
        names = (names,) if isinstance(names, str) else names or ()
        for name in names:
            if name not in mesh_shape:
                raise ValueError(f"unknown {name}")
        parts = mesh_shape[names[0]] if names else 1
        if shape[axis] % parts:
            raise ValueError(f"{shape[axis]} does not divide by {parts}")
        shard[axis] //= parts
        distinct *= parts
    return tuple(shard), distinct


# %% wrong="fixed mesh" fails="block and count; no devices needed"
"""Writes the example's mesh into the code."""


def predict_layout(shape, mesh_shape, spec):
    mesh_shape = {"data": 4, "model": 2}
    shard, distinct = list(shape), 1
    for axis, names in enumerate(spec):
        names = (names,) if isinstance(names, str) else names or ()
        for name in names:
            if name not in mesh_shape:
                raise ValueError(f"unknown {name}")
        parts = math.prod(mesh_shape[name] for name in names)
        if shape[axis] % parts:
            raise ValueError(f"{shape[axis]} does not divide by {parts}")
        shard[axis] //= parts
        distinct *= parts
    return tuple(shard), distinct


# %% wrong="names in tuples are not looked up" fails="mistakes raise"
"""Looks for unknown names among single ones: in a tuple they are a KeyError."""


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = list(shape), 1
    for axis, names in enumerate(spec):
        if isinstance(names, str) and names not in mesh_shape:
            raise ValueError(f"unknown {names}")
        names = (names,) if isinstance(names, str) else names or ()
        parts = math.prod(mesh_shape[name] for name in names)
        if shape[axis] % parts:
            raise ValueError(f"{shape[axis]} does not divide by {parts}")
        shard[axis] //= parts
        distinct *= parts
    return tuple(shard), distinct


# %% wrong="none left in dict" fails="arguments stay"
"""Writes an entry into the caller's dict, and leaves it there where it raises."""


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


# %% wrong="remembers by shape" fails="block and count"
"""Keeps what it found for a spec, whatever the array and the mesh are."""

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


# %% wrong="returns a list" fails="block and count; no devices needed; short specs"
"""Returns the block's shape as a list: equal to no shape in JAX."""


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = list(shape), 1
    for axis, names in enumerate(spec):
        names = (names,) if isinstance(names, str) else names or ()
        for name in names:
            if name not in mesh_shape:
                raise ValueError(f"unknown {name}")
        parts = math.prod(mesh_shape[name] for name in names)
        if shape[axis] % parts:
            raise ValueError(f"{shape[axis]} does not divide by {parts}")
        shard[axis] //= parts
        distinct *= parts
    return shard, distinct


# %% wrong="rounds down" fails="mistakes raise"
"""Drops the rows that do not divide."""


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = list(shape), 1
    for axis, names in enumerate(spec):
        names = (names,) if isinstance(names, str) else names or ()
        for name in names:
            if name not in mesh_shape:
                raise ValueError(f"unknown {name}")
        parts = math.prod(mesh_shape[name] for name in names)
        pass
        shard[axis] //= parts
        distinct *= parts
    return tuple(shard), distinct


# %% wrong="takes axes out of the mesh" fails="arguments stay"
"""Takes each axis out of the caller's mesh, so that none is used twice."""


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = list(shape), 1
    for axis, names in enumerate(spec):
        parts = 1
        for name in (names,) if isinstance(names, str) else names or ():
            if name not in mesh_shape:
                raise ValueError(f"unknown {name}")
            parts *= mesh_shape.pop(name)
        if shape[axis] % parts:
            raise ValueError(f"{shape[axis]} does not divide by {parts}")
        shard[axis] //= parts
        distinct *= parts
    return tuple(shard), distinct


# %% wrong="unknown axes do nothing" fails="mistakes raise"
"""Takes a name that the mesh lacks for an axis of one device."""


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = list(shape), 1
    for axis, names in enumerate(spec):
        names = (names,) if isinstance(names, str) else names or ()
        pass
        parts = math.prod(mesh_shape.get(name, 1) for name in names)
        if shape[axis] % parts:
            raise ValueError(f"{shape[axis]} does not divide by {parts}")
        shard[axis] //= parts
        distinct *= parts
    return tuple(shard), distinct


# %% wrong="wants an entry per axis" fails="short specs"
"""Pairs sizes with entries, and fails where the spec is shorter."""


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


# %% right="via abstract mesh"
"""Asks JAX, on a mesh without devices."""

from jax.sharding import AbstractMesh


def predict_layout(shape, mesh_shape, spec):
    mesh = AbstractMesh(tuple(mesh_shape.values()), tuple(mesh_shape))
    shard = tuple(NamedSharding(mesh, P(*spec)).shard_shape(shape))
    return shard, math.prod(shape) // math.prod(shard)


# %% right="via helpers called check and observe"
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


# %% right="via numpy"
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


# %% right="via recursion"
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


# %% right="via sizes"
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


# %% right="via zip longest"
"""Pairs sizes with entries, missing ones as None."""

import itertools


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = [], 1
    for size, entry in itertools.zip_longest(shape, spec):
        parts = 1
        for name in [entry] if isinstance(entry, str) else entry or []:
            if name not in mesh_shape:
                raise ValueError(f"unknown axis: {name}")
            parts = parts * mesh_shape[name]
        if size % parts:
            raise ValueError(f"{size} / {parts} leaves a rest")
        shard.append(size // parts)
        distinct = distinct * parts
    return tuple(shard), distinct


# %% right="via float division"
"""Divides with /, which is exact for all sizes below 2**53."""


def predict_layout(shape, mesh_shape, spec):
    block, distinct = list(shape), 1
    for i, entry in enumerate(spec):
        names = () if entry is None else entry if isinstance(entry, tuple) else (entry,)
        for name in names:
            if name not in mesh_shape:
                raise ValueError(f"unknown mesh axis {name!r}")
        parts = math.prod(mesh_shape[name] for name in names)
        size = shape[i] / parts
        if not size.is_integer():
            raise ValueError(f"{shape[i]} does not divide by {parts}")
        block[i] = int(size)
        distinct *= parts
    return tuple(block), distinct


# %% wrong="divides in float32" fails="block and count"
"""Divides by JAX, in 32 bits."""


def predict_layout(shape, mesh_shape, spec):
    block, distinct = list(shape), 1
    for axis, names in enumerate(spec):
        names = (names,) if isinstance(names, str) else names or ()
        if not set(names) <= set(mesh_shape):
            raise ValueError(f"{names}: not all in {mesh_shape}")
        parts = math.prod(mesh_shape[name] for name in names)
        if shape[axis] % parts:
            raise ValueError(f"{shape[axis]} into {parts}")
        block[axis] = int(jnp.divide(shape[axis], parts))
        distinct *= parts
    return tuple(block), distinct


# %% wrong="divides name by name" fails="mistakes raise"
"""Asks whether each mesh axis of a tuple divides the size, not whether all do."""


def predict_layout(shape, mesh_shape, spec):
    block, count = list(shape), 1
    for axis, entry in enumerate(spec):
        names = () if entry is None else (entry,) if isinstance(entry, str) else entry
        for name in names:
            if name not in mesh_shape or shape[axis] % mesh_shape[name]:
                raise ValueError(f"{shape[axis]} over {name}")
            block[axis] //= mesh_shape[name]
            count *= mesh_shape[name]
    return tuple(block), count
