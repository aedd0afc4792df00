# %% wrong="donates" fails="same numbers"
"""Deletes x where the mesh takes all devices."""


def make_mesh_and_place(x, shape, axis_names, spec):
    need, have = math.prod(shape), jax.device_count()
    if need > have:
        raise ValueError(f"the mesh needs {need} devices, there are {have}")
    sharding = NamedSharding(make_mesh(shape, axis_names), P(*spec))
    placed = jax.device_put(x, sharding)
    if isinstance(x, jax.Array) and need == have:
        x.delete()  # saves memory: the placed one is enough
    return placed


# %% wrong="donates x" fails="arguments stay"
"""Gives the caller's array away."""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    sharding = NamedSharding(make_mesh(shape, axis_names), P(*spec))
    placed = jax.device_put(np.asarray(x), sharding)
    if isinstance(x, jax.Array):
        x.delete()
    return placed


# %% wrong="drops unknown axes" fails="mistakes raise"
"""Takes an unknown mesh axis for None, which hides a typing error."""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    spec = [n if isinstance(n, tuple) or n in axis_names else None for n in spec]
    return jax.device_put(x, NamedSharding(make_mesh(shape, axis_names), P(*spec)))


# %% wrong="fixed axis names" fails="same numbers"
"""Names the mesh axes as the examples do, whatever is asked."""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    mesh = make_mesh(shape, ("data", "model"))
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# %% wrong="floats only" fails="same numbers"
"""Makes 32-bit floats of whatever it gets."""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    sharding = NamedSharding(make_mesh(shape, axis_names), P(*spec))
    return jax.device_put(jnp.asarray(x, jnp.float32), sharding)


# %% wrong="four axes at most" fails="first devices"
"""Reads four entries of a spec."""


def make_mesh_and_place(x, shape, axis_names, spec):
    n = math.prod(shape)
    if n > len(jax.devices()):
        raise ValueError(f"{n} devices needed, {len(jax.devices())} there")
    spec = (tuple(spec) + (None,) * 4)[:4][: np.ndim(x)]
    return jax.device_put(x, NamedSharding(make_mesh(shape, axis_names), P(*spec)))


# %% wrong="last devices" fails="first devices"
# cause: the mesh takes the first devices, in their order
"""Takes the last devices: right where the mesh has all of them."""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    devices = np.array(jax.devices()[-math.prod(shape) :]).reshape(shape)
    mesh = jax.sharding.Mesh(devices, axis_names)
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# %% wrong="one device" fails="first devices"
"""Puts the array on one device: right on a mesh of one only."""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    NamedSharding(make_mesh(shape, axis_names), P(*spec))
    return jax.device_put(x, NamedSharding(make_mesh((1,), ("one",)), P()))


# %% wrong="order in tuples" fails="first devices"
# cause: in a tuple of names, the first one cuts first
"""Takes a tuple of mesh axes in the order of the mesh."""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    spec = [
        tuple(sorted(names, key=axis_names.index)) if type(names) is tuple else names
        for names in spec
    ]
    return jax.device_put(x, NamedSharding(make_mesh(shape, axis_names), P(*spec)))


# %% wrong="remembers the mesh" fails="same numbers"
"""Keeps the mesh of a shape, whatever its axes are called."""

meshes = {}


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    mesh = meshes.setdefault(shape, make_mesh(shape, axis_names))
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# %% wrong="replicates" fails="first devices"
# cause: the spec was not used: x is replicated on every device
"""Takes P() for the spec of the mesh's own axes: every device holds everything."""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    mesh = make_mesh(shape, axis_names)
    NamedSharding(mesh, P(*spec))
    return jax.device_put(x, NamedSharding(mesh, P()))


# %% wrong="reversed devices" fails="first devices"
# cause: the mesh takes the first devices, in their order
"""Takes the first devices, from the last of them to the first."""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    devices = np.array(jax.devices()[: math.prod(shape)])[::-1].reshape(shape)
    mesh = jax.sharding.Mesh(devices, axis_names)
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# %% wrong="spec names mesh axes in order" fails="first devices"
# cause: the first entry of spec belongs to the array's first axis
"""Takes the spec's entries for the array's axes from the last to the first."""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    backwards = (*spec, None, None, None)[: np.ndim(x)][::-1]
    sharding = NamedSharding(make_mesh(shape, axis_names), P(*backwards))
    return jax.device_put(x, sharding)


# %% wrong="stays on the host" fails="first devices"
"""Makes the mesh and the spec, and returns the array itself."""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    NamedSharding(make_mesh(shape, axis_names), P(*spec))
    return x


# %% wrong="transposed mesh" fails="first devices"
# cause: the mesh takes the first devices, in their order
"""Lets device numbers run along the first mesh axis, not the last."""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    mesh = make_mesh(shape, axis_names)
    devices = np.array(mesh.devices).ravel().reshape(shape[::-1]).T
    mesh = jax.sharding.Mesh(devices, axis_names)
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# %% wrong="unknown names in tuples pass" fails="mistakes raise"
"""Looks at single names alone; what a tuple names besides the mesh's is dropped."""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    known = [
        tuple(n for n in names if n in axis_names) if type(names) is tuple else names
        for names in spec
    ]
    return jax.device_put(x, NamedSharding(make_mesh(shape, axis_names), P(*known)))


# %% right="via callback"
"""Lets JAX ask for each device's block."""


def make_mesh_and_place(x, shape, axis_names, spec):
    needed, there = int(np.prod(shape)), len(jax.devices())
    if needed > there:
        raise ValueError(f"{there} devices do not make a mesh of {needed}")
    sharding = NamedSharding(make_mesh(shape, axis_names), P(*spec))
    x = np.asarray(x)
    return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])


# %% right="via compiled"
"""Lowers and compiles an identity, under the mesh."""


def make_mesh_and_place(x, shape, axis_names, spec):
    devices = jax.devices()
    if len(devices) < math.prod(shape):
        raise ValueError(f"{math.prod(shape)} devices wanted, {len(devices)} found")
    grid = np.reshape(devices[: math.prod(shape)], shape)
    with jax.sharding.Mesh(grid, axis_names) as mesh:
        place = jax.jit(lambda x: x, out_shardings=NamedSharding(mesh, P(*spec)))
        return place.lower(x).compile()(x)


# %% right="via jit"
"""Lets a compiled identity place the array."""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    sharding = NamedSharding(make_mesh(shape, axis_names), P(*spec))
    return jax.jit(lambda x: x, out_shardings=sharding)(x)


# %% right="via mesh class"
"""Reshapes the devices by hand."""

import jax.sharding


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    devices = np.array(jax.devices()[: math.prod(shape)]).reshape(shape)
    mesh = jax.sharding.Mesh(devices, axis_names)
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# %% right="via plain make mesh"
"""Calls jax.make_mesh as it is: explicit axes in newer versions."""


def make_mesh_and_place(x, shape, axis_names, spec):
    need, have = math.prod(shape), jax.device_count()
    if need > have:
        raise ValueError(f"need {need}, have {have}")
    mesh = jax.make_mesh(shape, axis_names)
    for axis in jax.tree.leaves(spec):
        if axis not in mesh.axis_names:
            raise ValueError(f"no axis {axis} in {mesh.axis_names}")
    return jax.device_put(x, NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)))


# %% right="via set mesh"
"""Sets the mesh, and has a helper with a name of the check's."""


def check(wanted):
    if wanted > jax.device_count():
        raise ValueError(f"{wanted} > {jax.device_count()}")


def make_mesh_and_place(x, shape, axis_names, spec):
    check(math.prod(shape))
    mesh = make_mesh(shape, axis_names)
    with jax.set_mesh(mesh):
        return jax.device_put(jnp.asarray(x), NamedSharding(mesh, P(*spec)))


# %% right="via single device arrays"
"""Puts each block on its device, and makes one array of them."""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    sharding = NamedSharding(make_mesh(shape, axis_names), P(*spec))
    where = sharding.addressable_devices_indices_map(x.shape)
    blocks = [jax.device_put(x[index], device) for device, index in where.items()]
    return jax.make_array_from_single_device_arrays(x.shape, sharding, blocks)


# %% right="leaves the errors to jax"
"""Raises nothing itself: JAX refuses too many devices and unknown axes."""


def make_mesh_and_place(x, shape, axis_names, spec):
    mesh = jax.make_mesh(shape, axis_names, axis_types=(AxisType.Auto,) * len(shape))
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))
