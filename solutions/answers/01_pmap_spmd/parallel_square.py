# %% wrong="donates x" fails="arguments stay"
"""Saves memory by giving up its argument, which the caller still needs."""


def parallel_square(x):
    return jax.pmap(lambda row: row**2, donate_argnums=0)(x)


# %% wrong="forgets the call" fails="squares; one row per device"
"""Returns the mapped function instead of calling it."""


def parallel_square(x):
    return jax.pmap(lambda row: row**2)


# %% wrong="needs two axes" fails="squares"
"""Names the row's axis in an einsum: other ranks fail."""


def parallel_square(x):
    return jax.pmap(lambda row: jnp.einsum("i,i->i", row, row))(x)


# %% wrong="one array on one device" fails="one row per device"
# cause: jax.pmap runs on a device per row; here is one
"""Believes that JAX spreads work by itself: right on one device, idle on seven."""


def parallel_square(x):
    return jnp.asarray(x) ** 2


# %% wrong="prod then spread" fails="one row per device"
"""Squares as a product of two stacked copies, on one device; then spreads the rows."""


def parallel_square(x):
    twice = jnp.stack([x, x])
    squared = jnp.prod(twice, axis=0).astype(x.dtype)
    return jax.pmap(lambda row: row)(squared)


# %% wrong="puts rows together by hand" fails="one row per device; traceable"
"""Squares each row on its device, and joins the pieces: nothing is left to trace."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def parallel_square(x):
    devices = jax.devices()[: len(x)]
    rows = [
        jax.device_put(x[d : d + 1], device) ** 2 for d, device in enumerate(devices)
    ]
    sharding = NamedSharding(jax.sharding.Mesh(devices, ("d",)), P("d"))
    return jax.make_array_from_single_device_arrays(x.shape, sharding, rows)


# %% wrong="remembers by shape" fails="squares; nothing is remembered"
"""Keeps the result of each shape, as if numbers of that shape were always the same."""

KNOWN = {}


def parallel_square(x):
    if isinstance(x, jax.core.Tracer):
        return jax.pmap(lambda row: row**2)(x)
    if x.shape not in KNOWN:
        KNOWN[x.shape] = jax.pmap(lambda row: row**2)(x)
    return KNOWN[x.shape]


# %% wrong="replicated" fails="one row per device"
"""Sends the whole array to every device: each device does all of the work."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def parallel_square(x):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(x)]), ("d",))
    return jax.device_put(jnp.asarray(x) ** 2, NamedSharding(mesh, P()))


# %% wrong="reverses the devices" fails="one row per device"
"""Numbers the devices from the last to the first."""


def parallel_square(x):
    devices = jax.devices()[: len(x)][::-1]
    return jax.pmap(lambda row: row**2, devices=devices)(x)


# %% wrong="spreads afterwards" fails="one row per device"
"""Squares all rows on one device, and spreads the result: the others only store."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def parallel_square(x):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(x)]), ("d",))
    squares = jax.vmap(lambda row: row**2)(x)
    return jax.device_put(squares, NamedSharding(mesh, P("d")))


# %% wrong="squares by numpy" fails="one row per device; traceable"
# cause: a NumPy function inside traced code: use jnp there
"""Squares on the host, and uses pmap to place the rows."""


def parallel_square(x):
    return jax.pmap(lambda row: row)(np.square(x))


# %% wrong="sums each row" fails="squares"
"""Confuses the square with the squared norm of a device's row."""


def parallel_square(x):
    return jax.pmap(lambda row: (row**2).sum())(x)


# %% wrong="takes the last devices" fails="one row per device"
"""Counts devices from the end: with fewer rows than devices, others work."""


def parallel_square(x):
    devices = jax.devices()[-len(x) :]
    return jax.pmap(lambda row: row**2, devices=devices)(x)


# %% wrong="vmap" fails="one row per device"
# cause: jax.pmap runs on a device per row; here is one
"""Takes vmap for pmap: the same numbers, one device."""


def parallel_square(x):
    return jax.vmap(lambda row: row**2)(x)


# %% right="via constraint"
"""Says inside a compiled function where the rows lie."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


@jax.jit
def parallel_square(x):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: x.shape[0]]), ("d",))
    x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("d")))
    return jax.vmap(jnp.square)(x)


# %% right="via device put"
"""Places the rows first; jit then computes where the data is."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def parallel_square(x):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(x)]), ("d",))
    placed = jax.device_put(x, NamedSharding(mesh, P("d")))
    return jax.jit(jnp.square)(placed)


# %% right="via helpers of our names"
"""Has helpers that are called as the course calls its own, and a class."""


def check(x):
    assert x.shape[0] <= jax.device_count()
    return x


def observe(row):
    return jnp.multiply(row, row)


class Case:
    def __call__(self, row):
        return observe(row)


def parallel_square(x):
    expect = jax.pmap(Case(), axis_name="rows")
    return expect(check(x))


# %% right="via in shardings"
"""Tells jit how its input is sharded, and multiplies."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def parallel_square(x):
    mesh = jax.sharding.Mesh(jax.devices()[: x.shape[0]], "d")
    rows = NamedSharding(mesh, P("d"))
    return jax.jit(lambda x: x * x, in_shardings=rows, out_shardings=rows)(x)


# %% right="via set mesh"
"""Sets a mesh, whose axes are explicit in newer versions of JAX."""

from jax.sharding import PartitionSpec as P


def parallel_square(x):
    mesh = jax.make_mesh((len(x),), ("rows",), devices=jax.devices()[: len(x)])
    with jax.set_mesh(mesh):
        return jnp.square(jax.device_put(x, P("rows")))


# %% right="via shard map"
"""Uses today's name for the same thing."""

from jax.sharding import PartitionSpec as P


def parallel_square(x):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(x)]), ("d",))
    square = jax.shard_map(
        lambda block: block**2, mesh=mesh, in_specs=P("d"), out_specs=P("d")
    )
    return jax.jit(square)(x)


# %% wrong="every device squares all rows" fails="one row per device"
"""Broadcasts the rows, squares all of them on each device, and keeps one."""


def parallel_square(x):
    def f(x):
        return jax.lax.dynamic_slice_in_dim(x * x, jax.lax.axis_index("devices"), 1)

    return jax.jit(
        jax.shard_map(f, mesh=make_mesh(len(x)), in_specs=P(), out_specs=P("devices"))
    )(x)


# %% wrong="one device, by the name of a map" fails="one row per device"
"""Squares on one device, in a function that is called like a map; then spreads rows."""


def parallel_square(x):
    def shard_map_x(x):
        return x**2

    return jax.pmap(lambda row: row)(jax.jit(shard_map_x)(x))


# %% wrong="maps the example alone" fails="one row per device"
# cause: a NumPy function inside traced code: use jnp there
"""Maps what the example maps; squares all else on the host, and spreads the rows."""

import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def parallel_square(x):
    if len(x) == jax.device_count():
        return jax.pmap(lambda row: row**2)(x)
    mesh = jax.sharding.Mesh(jax.devices()[: len(x)], ("d",))
    return jax.device_put(np.asarray(x) ** 2, NamedSharding(mesh, P("d")))


# %% wrong="another axis in front" fails="one row per device"
"""Gives each device all rows, behind an axis of length one."""


def parallel_square(x):
    def f(x):
        return jax.lax.dynamic_slice_in_dim(x[0] ** 2, jax.lax.axis_index("devices"), 1)

    specs = {"in_specs": P(), "out_specs": P("devices")}
    return jax.jit(jax.shard_map(f, mesh=make_mesh(len(x)), **specs))(x[None])


# %% wrong="an axis of one device" fails="one row per device"
"""Splits the rows over an axis of one device, so that each device gets all."""


def parallel_square(x):
    devices = np.array(jax.devices()[: len(x)])[None]
    mesh = jax.sharding.Mesh(devices, ("one", "all"))

    def f(x):
        return jax.lax.dynamic_slice_in_dim(x * x, jax.lax.axis_index("all"), 1)

    specs = {"in_specs": P("one"), "out_specs": P("all"), "check_vma": False}
    return jax.jit(jax.shard_map(f, mesh=mesh, **specs))(x)


# %% wrong="a constraint that replicates" fails="one row per device"
"""Asks inside jit for all rows on every device, squares them, and splits the result."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def parallel_square(x):
    mesh = jax.sharding.Mesh(jax.devices()[: len(x)], ("d",))

    def f(x):
        x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P()))
        return jax.lax.with_sharding_constraint(x * x, NamedSharding(mesh, P("d")))

    return jax.jit(f)(x)


# %% wrong="one device hands out" fails="one row per device"
"""Gives all rows to device 0, and nothing but zeros to the others; then scatters."""


def parallel_square(x):
    def f(blocks):
        squares = blocks[0] ** 2
        return jax.lax.psum_scatter(squares, "devices", tiled=True)

    D = len(x)
    x = jnp.asarray(x)[None]
    stacked = jnp.concatenate([x, jnp.zeros((D - 1, *x.shape[1:]), x.dtype)])
    specs = {"in_specs": P("devices"), "out_specs": P("devices")}
    return jax.jit(jax.shard_map(f, mesh=make_mesh(D), **specs))(stacked)


# %% wrong="gathers all rows" fails="one row per device"
"""Gathers all rows on each device, squares them, and keeps one."""


def parallel_square(x):
    def f(row):
        squares = jax.lax.all_gather(row, "d") ** 2
        return squares[jax.lax.axis_index("d")]

    return jax.pmap(f, axis_name="d")(x)
