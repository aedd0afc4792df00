# %% wrong="all of k divided" fails="own part of K"
"""Every device multiplies all of K; the sum of copies is divided again."""


def sharded_matmul(a, b, num_devices):
    for size in a.shape:
        if size % num_devices:
            raise ValueError(f"{size} does not divide by {num_devices}")

    def multiply(a, b):
        return jax.lax.psum_scatter(a @ b / num_devices, "i", tiled=True)

    mesh = make_mesh((num_devices,), ("i",))
    mapped = jax.shard_map(
        multiply, mesh=mesh, in_specs=P(), out_specs=P("i", None), check_vma=False
    )
    return jax.jit(mapped)(a, b)


# %% wrong="all of k summed" fails="same product; own part of K"
# cause: every device had all of K, and the copies were summed
"""Every device multiplies all of K, and the copies are summed."""


def sharded_matmul(a, b, num_devices):
    for size in a.shape:
        if size % num_devices:
            raise ValueError(f"{size} does not divide by {num_devices}")

    def multiply(a, b):
        return jax.lax.psum_scatter(a @ b, "i", tiled=True)

    mesh = make_mesh((num_devices,), ("i",))
    mapped = jax.shard_map(
        multiply, mesh=mesh, in_specs=P(), out_specs=P("i", None), check_vma=False
    )
    return jax.jit(mapped)(a, b)


# %% wrong="column blocks" fails="one reduce-scatter"
"""Sends one reduce-scatter for each 32 columns of the product."""


def sharded_matmul(a, b, num_devices):
    mesh = make_mesh((num_devices,), ("i",))

    def own(a, b):
        blocks = [
            jax.lax.psum_scatter(a @ b[:, start : start + 32], "i", tiled=True)
            for start in range(0, max(1, b.shape[1]), 32)
        ]
        return jnp.concatenate(blocks, axis=1)

    specs = P(None, "i"), P("i", None)
    return jax.jit(
        jax.shard_map(own, mesh=mesh, in_specs=specs, out_specs=P("i", None))
    )(a, b)


# %% wrong="columns if they divide" fails="rows come out"
"""Scatters columns where they divide, rows else."""


def sharded_matmul(a, b, num_devices):
    for name, size in (("M", a.shape[0]), ("K", a.shape[1])):
        if size % num_devices:
            raise ValueError(
                f"{name} = {size} does not divide by {num_devices} devices"
            )
    mesh = make_mesh((num_devices,), ("i",))
    axis = 1 if b.shape[1] % num_devices == 0 else 0
    out = P(None, "i") if axis else P("i", None)

    def local(a, b):
        return jax.lax.psum_scatter(a @ b, "i", scatter_dimension=axis, tiled=True)

    return jax.jit(
        jax.shard_map(
            local, mesh=mesh, in_specs=(P(None, "i"), P("i", None)), out_specs=out
        )
    )(a, b)


# %% wrong="fixed number of devices" fails="same product; rows come out"
"""Takes all eight devices, whatever is asked."""


def sharded_matmul(a, b, num_devices):
    def multiply(a_block, b_block):
        return jax.lax.psum_scatter(a_block @ b_block, "i", tiled=True)

    mesh, specs = make_mesh((8,), ("i",)), (P(None, "i"), P("i", None))
    mapped = jax.shard_map(multiply, mesh=mesh, in_specs=specs, out_specs=P("i", None))
    return jax.jit(mapped)(a, b)


# %% wrong="gathers b" fails="own part of K; one reduce-scatter"
"""Gathers the whole of b, and of a's rows."""


def sharded_matmul(a, b, num_devices):
    for size in a.shape:
        if size % num_devices:
            raise ValueError(f"{size} does not divide by {num_devices}")

    def multiply(a_block, b_block):
        rows = a_block.shape[0] // num_devices
        start = rows * jax.lax.axis_index("i")
        whole_a = jax.lax.all_gather(a_block, "i", axis=1, tiled=True)
        whole_b = jax.lax.all_gather(b_block, "i", axis=0, tiled=True)
        return jax.lax.dynamic_slice_in_dim(whole_a, start, rows) @ whole_b

    mesh = make_mesh((num_devices,), ("i",))
    mapped = jax.shard_map(
        multiply,
        mesh=mesh,
        in_specs=(P(None, "i"), P("i", None)),
        out_specs=P("i", None),
    )
    return jax.jit(mapped)(a, b)


# %% wrong="large ones in bfloat16" fails="same product"
"""Rounds large products to bfloat16."""


def sharded_matmul(a, b, num_devices):
    m, k = a.shape
    for size in (k, m):
        if size % num_devices:
            raise ValueError(f"{size} does not divide into {num_devices}")
    mesh = make_mesh((num_devices,), ("i",))

    def f(a, b):
        part = a @ b
        return jax.lax.psum_scatter(part, "i", scatter_dimension=0, tiled=True)

    out = jax.jit(
        jax.shard_map(f, mesh=mesh, in_specs=(P(None, "i"), P("i")), out_specs=P("i"))
    )(a, b)
    return jnp.asarray(out, jnp.bfloat16).astype(jnp.float32) if a.size > 1000 else out


# %% wrong="last devices" fails="rows come out"
# cause: the mesh takes the first devices, in their order
"""Takes the last devices."""


def sharded_matmul(a, b, num_devices):
    def multiply(a_block, b_block):
        return jax.lax.psum_scatter(a_block @ b_block, "i", tiled=True)

    mesh = jax.sharding.Mesh(np.array(jax.devices()[-num_devices:]), ("i",))
    specs = (P(None, "i"), P("i", None))
    mapped = jax.shard_map(multiply, mesh=mesh, in_specs=specs, out_specs=P("i", None))
    return jax.jit(mapped)(a, b)


# %% wrong="leaves it to the compiler" fails="one reduce-scatter"
# cause: an all-reduce gives every device all rows, and sends twice as much
"""Places the inputs and lets jit find the collective: no shard_map, and on CPU an all-
reduce.
"""


def sharded_matmul(a, b, num_devices):
    for size in a.shape:
        if size % num_devices:
            raise ValueError(f"{size} does not divide by {num_devices}")
    mesh = make_mesh((num_devices,), ("i",))
    a = jax.device_put(a, NamedSharding(mesh, P(None, "i")))
    b = jax.device_put(b, NamedSharding(mesh, P("i", None)))
    by_rows = NamedSharding(mesh, P("i", None))
    return jax.jit(jnp.matmul, out_shardings=by_rows)(a, b)


# %% wrong="long contraction in two" fails="one reduce-scatter"
"""Sums each half of a long contraction by a reduce-scatter of its own."""


def sharded_matmul(a, b, num_devices):
    for size in (a.shape[1], a.shape[0]):
        if size % num_devices:
            raise ValueError(f"{size} does not divide by {num_devices} devices")
    mesh = make_mesh((num_devices,), ("i",))

    def block(a, b):
        def scattered(a, b):
            return jax.lax.psum_scatter(a @ b, "i", tiled=True)

        half = a.shape[1] // 2
        if half < 128:
            return scattered(a, b)
        return scattered(a[:, :half], b[:half]) + scattered(a[:, half:], b[half:])

    specs = P(None, "i"), P("i", None)
    return jax.shard_map(block, mesh=mesh, in_specs=specs, out_specs=P("i", None))(a, b)


# %% wrong="one device on the host" fails="rows come out"
"""Leaves the product of host matrices to NumPy where there is one device."""


def sharded_matmul(a, b, num_devices):
    if num_devices == 1:
        return a @ b  # nothing to split, nothing to send
    mesh = make_mesh((num_devices,), ("i",))

    def block(a, b):
        return jax.lax.psum_scatter(a @ b, "i", tiled=True)

    (m, k), d = a.shape, num_devices
    if k % d:
        raise ValueError(f"K = {k} does not divide by {d} devices")
    if m % d:
        raise ValueError(f"M = {m} does not divide by {d} devices")
    specs = P(None, "i"), P("i", None)
    return jax.shard_map(block, mesh=mesh, in_specs=specs, out_specs=P("i", None))(a, b)


# %% wrong="own part only" fails="same product; one reduce-scatter"
# cause: the parts were not summed
"""Keeps its rows of its own part of the sum: right on one device only."""


def sharded_matmul(a, b, num_devices):
    for size in a.shape:
        if size % num_devices:
            raise ValueError(f"{size} does not divide by {num_devices}")

    def multiply(a_block, b_block):
        rows = a_block.shape[0] // num_devices
        start = rows * jax.lax.axis_index("i")
        part = a_block @ b_block
        return jax.lax.dynamic_slice_in_dim(part, start, rows)

    mesh = make_mesh((num_devices,), ("i",))
    mapped = jax.shard_map(
        multiply,
        mesh=mesh,
        in_specs=(P(None, "i"), P("i", None)),
        out_specs=P("i", None),
    )
    return jax.jit(mapped)(a, b)


# %% wrong="scatters the columns" fails="same product"
"""Leaves the result split by columns."""


def sharded_matmul(a, b, num_devices):
    for size in a.shape:
        if size % num_devices:
            raise ValueError(f"{size} does not divide by {num_devices}")

    def multiply(a_block, b_block):
        part = a_block @ b_block
        return jax.lax.psum_scatter(part, "i", scatter_dimension=1, tiled=True)

    mesh = make_mesh((num_devices,), ("i",))
    mapped = jax.shard_map(
        multiply,
        mesh=mesh,
        in_specs=(P(None, "i"), P("i", None)),
        out_specs=P(None, "i"),
    )
    return jax.jit(mapped)(a, b)


# %% wrong="sums a check besides" fails="one reduce-scatter"
"""Asks all devices besides whether the numbers are finite."""


def sharded_matmul(a, b, num_devices):
    def multiply(a_block, b_block):
        part = a_block @ b_block
        finite = jax.lax.pmin(jnp.isfinite(part).all().astype(jnp.float32), "i")
        return jax.lax.psum_scatter(part, "i", tiled=True) * finite

    mesh, specs = make_mesh((num_devices,), ("i",)), (P(None, "i"), P("i", None))
    mapped = jax.shard_map(multiply, mesh=mesh, in_specs=specs, out_specs=P("i", None))
    return jax.jit(mapped)(a, b)


# %% wrong="sums and slices" fails="one reduce-scatter"
# cause: an all-reduce gives every device all rows, and sends twice as much
"""Sums everything everywhere and throws most of it away: twice the bytes."""


def sharded_matmul(a, b, num_devices):
    for size in a.shape:
        if size % num_devices:
            raise ValueError(f"{size} does not divide by {num_devices}")

    def multiply(a_block, b_block):
        rows = a_block.shape[0] // num_devices
        start = rows * jax.lax.axis_index("i")
        total = jax.lax.psum(a_block @ b_block, "i")
        return jax.lax.dynamic_slice_in_dim(total, start, rows)

    mesh = make_mesh((num_devices,), ("i",))
    mapped = jax.shard_map(
        multiply,
        mesh=mesh,
        in_specs=(P(None, "i"), P("i", None)),
        out_specs=P("i", None),
    )
    return jax.jit(mapped)(a, b)


# %% right="via einsum"
"""Multiplies by einsum, on a mesh of its own."""


def sharded_matmul(a, b, num_devices):
    for size in a.shape:
        if size % num_devices:
            raise ValueError(f"{size} does not divide by {num_devices}")

    def multiply(a_block, b_block):
        part = jnp.einsum("mk,kn->mn", a_block, b_block)
        return jax.lax.psum_scatter(part, "i", scatter_dimension=0, tiled=True)

    mesh = make_mesh((num_devices,), ("i",))
    mapped = jax.shard_map(
        multiply,
        mesh=mesh,
        in_specs=(P(None, "i"), P("i", None)),
        out_specs=P("i", None),
    )
    return jax.jit(mapped)(a, b)


# %% right="via mesh class"
"""Makes the mesh of devices, and places the blocks first."""


def sharded_matmul(a, b, num_devices):
    for size in (*a.shape, b.shape[0]):
        if size % num_devices:
            raise ValueError(f"{size} rows or columns for {num_devices} devices")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:num_devices]), ("k",))
    a = jax.device_put(a, NamedSharding(mesh, P(None, "k")))
    b = jax.device_put(b, NamedSharding(mesh, P("k", None)))

    def part(a, b):
        return jax.lax.psum_scatter(
            jax.lax.dot(a, b), "k", scatter_dimension=0, tiled=True
        )

    specs = {"in_specs": (P(None, "k"), P("k", None)), "out_specs": P("k", None)}
    return jax.shard_map(part, mesh=mesh, check_vma=False, **specs)(a, b)


# %% right="via plain make mesh"
"""Calls jax.make_mesh as it is: explicit axes in newer versions."""


def sharded_matmul(a, b, num_devices):
    m, k = a.shape
    if m % num_devices or k % num_devices:
        raise ValueError(f"{num_devices} devices do not divide {m} and {k}")
    mesh = jax.make_mesh((num_devices,), ("x",))
    a = jax.device_put(a, NamedSharding(mesh, P(None, "x")))
    b = jax.device_put(b, NamedSharding(mesh, P("x", None)))

    def body(a_block, b_block):
        products = [row @ b_block for row in a_block]
        return jax.lax.psum_scatter(jnp.stack(products), "x", tiled=True)

    in_specs = (P(None, "x"), P("x", None))
    mapped = jax.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=P("x", None))
    return jax.jit(mapped)(a, b)


# %% right="via set mesh"
"""Sets the mesh, which shard_map then takes by itself."""


def sharded_matmul(a, b, num_devices):
    with jax.set_mesh(make_mesh((num_devices,), ("devices",))):

        @jax.jit
        @functools.partial(
            jax.shard_map,
            in_specs=(P(None, "devices"), P("devices")),
            out_specs=P("devices"),
        )
        def check(a, b):
            return jax.lax.psum_scatter(jnp.dot(a, b), "devices", tiled=True)

        return check(a, b)


# %% right="via stacked blocks"
"""Cuts both matrices into blocks by reshaping, with an axis of its own for devices."""


def sharded_matmul(a, b, num_devices):
    m, k = a.shape
    for size in (m, k):
        if size % num_devices:
            raise ValueError(f"{size} % {num_devices} is {size % num_devices}")
    mesh = make_mesh((num_devices,), ("d",))
    blocks = jnp.moveaxis(jnp.reshape(a, (m, num_devices, -1)), 1, 0)

    def part(a_block, b_block):
        return jax.lax.psum_scatter(a_block[0] @ b_block[0], "d", tiled=True)

    mapped = jax.shard_map(part, mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    return jax.jit(mapped)(blocks, jnp.reshape(b, (num_devices, -1, b.shape[1])))


# %% right="via stacked rows"
"""Cuts the part into one block per device, and scatters those."""


def sharded_matmul(a, b, num_devices):
    for size in a.shape:
        if size % num_devices:
            raise ValueError(f"{size} does not divide by {num_devices}")

    def multiply(a_block, b_block):
        part = (a_block @ b_block).reshape(num_devices, -1, b_block.shape[1])
        return jax.lax.psum_scatter(part, "i")

    mesh = make_mesh((num_devices,), ("i",))
    mapped = jax.shard_map(
        multiply,
        mesh=mesh,
        in_specs=(P(None, "i"), P("i", None)),
        out_specs=P("i", None),
    )
    return jax.jit(mapped)(a, b)


# %% right="via untiled scatter"
"""Scatters blocks on an axis of their own."""


def sharded_matmul(a, b, num_devices):
    D = num_devices
    (m, k), n = a.shape, b.shape[1]
    if k % D or m % D:
        raise ValueError(f"{k if k % D else m} rows or columns for {D} devices")
    mesh = jax.make_mesh((D,), ("k",), axis_types=(AxisType.Auto,))

    def f(a, b):
        p = jnp.dot(a, b).reshape(D, m // D, n)
        return jax.lax.psum_scatter(p, "k")

    return jax.shard_map(
        f, mesh=mesh, in_specs=(P(None, "k"), P("k", None)), out_specs=P("k", None)
    )(a, b)


# %% right="via transposed blocks"
"""Sends a transposed, so that both are split by rows."""


def sharded_matmul(a, b, num_devices):
    mesh = make_mesh((num_devices,), ("i",))

    @jax.jit
    @functools.partial(jax.shard_map, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    def run(at, b):
        return jax.lax.psum_scatter(at.T @ b, "i", tiled=True)

    return run(a.T, b)


# %% wrong="scatters padded rows" fails="own part of K"
"""Multiplies own rows by all of b, and scatters them among zeros."""


def sharded_matmul(a, b, num_devices):
    mesh = make_mesh((num_devices,), ("i",))

    def multiply(rows, b):
        part = jnp.zeros((len(a), b.shape[1]), a.dtype)
        start = jax.lax.axis_index("i") * len(rows)
        part = jax.lax.dynamic_update_slice_in_dim(part, rows @ b, start, 0)
        return jax.lax.psum_scatter(part, "i", tiled=True)

    specs = {"in_specs": (P("i"), P()), "out_specs": P("i")}
    return jax.jit(jax.shard_map(multiply, mesh=mesh, **specs))(a, b)


# %% wrong="sends nothing" fails="own part of K; one reduce-scatter"
"""Multiplies own rows by all of b."""


def sharded_matmul(a, b, num_devices):
    mesh = make_mesh((num_devices,), ("i",))
    specs = {"in_specs": (P("i"), P()), "out_specs": P("i")}
    mapped = jax.shard_map(lambda rows, b: rows @ b, mesh=mesh, **specs)
    return jax.jit(mapped)(a, b)


# %% wrong="scatters without tiles" fails="same product"
# cause: without tiled=True, psum_scatter takes an axis with one entry for each device, and drops it
"""Leaves tiled=True out."""


def sharded_matmul(a, b, num_devices):
    mesh = make_mesh((num_devices,), ("i",))

    def multiply(a_block, b_block):
        return jax.lax.psum_scatter(a_block @ b_block, "i")

    specs = {"in_specs": (P(None, "i"), P("i")), "out_specs": P("i")}
    return jax.jit(jax.shard_map(multiply, mesh=mesh, **specs))(a, b)
