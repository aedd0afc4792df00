# %% wrong="all devices at once" fails="one row per device"
"""Builds all differences on one device before it spreads the rest of the work."""


def pairwise_distances(points, queries):
    gaps = jnp.asarray(points)[:, :, None] - queries
    return jax.pmap(lambda gaps: jnp.sqrt((gaps**2).sum(-1)))(gaps)


# %% wrong="centers on zero" fails="distances; accurate far from 0"
"""Subtracts 1000, then expands the square: right where all points are around 1000."""


def pairwise_distances(points, queries):
    def block(points, queries):
        points, queries = points - 1000, queries - 1000
        squares = (points**2).sum(-1)[:, None] + (queries**2).sum(-1)[None, :]
        return jnp.sqrt(jnp.maximum(squares - 2 * points @ queries.T, 0))

    return jax.pmap(block, in_axes=(0, None))(points, queries)


# %% wrong="centred expansion" fails="accurate far from 0"
# cause: right near 0, not near 1000: what is subtracted after squaring cancels
"""Subtracts the queries' mean, then expands the square: cancels where points lie apart."""


def pairwise_distances(points, queries):
    def block(ps, qs):
        centre = qs.mean(axis=0)
        ps, qs = ps - centre, qs - centre
        dots = jnp.matmul(ps, qs.T, precision="highest")
        squares = (ps**2).sum(1)[:, None] - 2 * dots + (qs**2).sum(1)
        return jnp.sqrt(jnp.maximum(squares, 0))

    return jax.pmap(block, in_axes=(0, None))(points, queries)


# %% wrong="computes in half precision" fails="distances; accurate far from 0"
"""Computes in bfloat16: eight bits are fewer than four digits."""


def pairwise_distances(points, queries):
    def block(points, queries):
        gaps = (points[:, None] - queries).astype(jnp.bfloat16)
        return jnp.sqrt((gaps**2).sum(-1)).astype(jnp.float32)

    return jax.pmap(block, in_axes=(0, None))(points, queries)


# %% wrong="expands the square" fails="accurate far from 0"
# cause: right near 0, not near 1000: what is subtracted after squaring cancels
"""Saves memory by |p|^2 - 2pq + |q|^2, which cancels far from the origin."""


def pairwise_distances(points, queries):
    def block(points, queries):
        squares = (points**2).sum(-1)[:, None] + (queries**2).sum(-1)[None, :]
        return jnp.sqrt(jnp.maximum(squares - 2 * points @ queries.T, 0))

    return jax.pmap(block, in_axes=(0, None))(points, queries)


# %% wrong="flattens all differences" fails="one row per device"
"""Builds all differences at once, in another shape than (D, N, Q, F)."""


def pairwise_distances(points, queries):
    num_devices, num_points, width = points.shape
    flat = jnp.asarray(points).reshape(-1, 1, width) - queries
    flat = flat.reshape(num_devices, num_points * len(queries), width)

    def block(gaps):
        return jnp.sqrt((gaps**2).sum(-1)).reshape(num_points, len(queries))

    return jax.pmap(block)(flat)


# %% wrong="keeps a distance" fails="distances; accurate far from 0"
"""Adds 1e-2 below the root, for a gradient that nobody asks for."""


def pairwise_distances(points, queries):
    def block(points, queries):
        return jnp.sqrt(((points[:, None] - queries) ** 2).sum(-1) + 1e-4)

    return jax.pmap(block, in_axes=(0, None))(points, queries)


# %% wrong="last chunk" fails="distances"
"""Goes through the queries 32 at a time: a last chunk of fewer is not the last rows.

dynamic_slice does not read beyond the end, it moves the start back.
"""


def _table(points, queries):
    total, chunk = queries.shape[0], min(32, queries.shape[0])

    def columns(start):
        some = jax.lax.dynamic_slice_in_dim(queries, start, chunk)
        return jnp.sqrt(((points[:, None] - some) ** 2).sum(-1))  # (N, chunk)

    parts = jax.lax.map(columns, jnp.arange(0, total, chunk))  # (chunks, N, chunk)
    return jnp.swapaxes(parts, 0, 1).reshape(points.shape[0], -1)[:, :total]


def pairwise_distances(points, queries):
    return jax.pmap(_table, in_axes=(0, None))(points, queries)


# %% wrong="no devices" fails="one row per device"
# cause: one device has all rows: jax.vmap, or no map
"""Maps by vmap alone: right on one device, idle on seven."""


def pairwise_distances(points, queries):
    def block(points):
        return jnp.sqrt(((points[:, None] - queries) ** 2).sum(-1))

    return jax.vmap(block)(points)


# %% wrong="spreads afterwards" fails="one row per device"
"""Loops over all points on one device, and spreads the result."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def pairwise_distances(points, queries):
    def row(point):
        return jnp.sqrt(((point - queries) ** 2).sum(-1))

    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(points)]), ("d",))
    distances = jax.lax.map(lambda block: jax.lax.map(row, block), points)
    return jax.device_put(distances, NamedSharding(mesh, P("d")))


# %% wrong="squared" fails="distances; accurate far from 0"
# cause: the square root is missing
"""Stops before the square root."""


def pairwise_distances(points, queries):
    def block(points, queries):
        return ((points[:, None] - queries) ** 2).sum(-1)

    return jax.pmap(block, in_axes=(0, None))(points, queries)


# %% wrong="transposed" fails="distances; accurate far from 0"
"""Nests the two vmaps the other way round: (D, Q, N) instead of (D, N, Q)."""


def pairwise_distances(points, queries):
    def distance(point, query):
        return jnp.sqrt(((point - query) ** 2).sum())

    to_points = jax.vmap(distance, in_axes=(0, None))
    block = jax.vmap(to_points, in_axes=(None, 0))
    return jax.pmap(block, in_axes=(0, None))(points, queries)


# %% wrong="transposed if needed" fails="distances"
"""Maps in the wrong order, and transposes where the shape shows it: not where N is Q."""


def pairwise_distances(points, queries):
    def distance(p, q):
        return jnp.sqrt(jnp.sum((p - q) ** 2))

    def block(ps, qs):
        out = jax.vmap(jax.vmap(distance, (0, None)), (None, 0))(ps, qs)
        return out if out.shape == (ps.shape[0], qs.shape[0]) else out.T

    return jax.pmap(block, in_axes=(0, None))(points, queries)


# %% right="via broadcasting"
"""Broadcasts inside a device's block instead of two vmaps."""


def pairwise_distances(points, queries):
    def block(points, queries):
        return jnp.linalg.norm(points[:, None, :] - queries[None, :, :], axis=-1)

    return jax.pmap(block, in_axes=(0, None))(points, queries)


# %% right="via helpers of our names"
"""Has helpers that are called as the course calls its own."""


def check(point, query):
    return jnp.sqrt(jnp.square(point - query).sum())


def observe(points, query):
    return jax.vmap(check, (0, None))(points, query)


def pairwise_distances(points, queries):
    expect = jax.vmap(observe, in_axes=(None, 0), out_axes=1)
    return jax.pmap(expect, in_axes=(0, None))(points, queries)


# %% right="via lax map"
"""Takes one point after the other on each device."""


def pairwise_distances(points, queries):
    def block(points):
        return jax.lax.map(
            lambda point: jnp.linalg.norm(point[None] - queries, axis=1), points
        )

    return jax.pmap(block)(points)


# %% right="via loop over features"
"""Adds up one feature at a time, on arrays that are placed."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def pairwise_distances(points, queries):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(points)]), ("d",))
    points = jax.device_put(points, NamedSharding(mesh, P("d")))
    queries = jax.device_put(queries, NamedSharding(mesh, P()))

    @jax.jit
    def run(points, queries):
        total = 0.0
        for feature in range(points.shape[-1]):
            gap = points[:, :, None, feature] - queries[:, feature]
            total = total + gap * gap
        return jnp.sqrt(total)

    return run(points, queries)


# %% right="via one expression"
"""Places the points, and writes the differences of all of them in one expression.

Sharded over the devices they cost each device its own block.
"""

from jax.sharding import NamedSharding


@jax.jit
def _distances(points, queries):
    gaps = points[:, :, None] - queries  # (D, N, Q, F)
    return jnp.sqrt((gaps**2).sum(-1))


def pairwise_distances(points, queries):
    mesh = make_mesh(len(points))
    points = jax.device_put(points, NamedSharding(mesh, P("devices")))
    return _distances(points, jax.device_put(queries, NamedSharding(mesh, P())))


# %% right="via set mesh"
"""Sets a mesh, and maps over its axis by shard_map."""

from jax.sharding import PartitionSpec as P


def pairwise_distances(points, queries):
    def block(points, queries):
        gaps = jnp.expand_dims(points[0], 1) - jnp.expand_dims(queries, 0)
        return jnp.sqrt(jnp.einsum("nqf,nqf->nq", gaps, gaps))[None]

    num_rows = len(points)
    mesh = jax.make_mesh((num_rows,), ("i",), devices=jax.devices()[:num_rows])
    with jax.set_mesh(mesh):
        points, queries = (
            jax.device_put(points, P("i")),
            jax.device_put(queries, P()),
        )
        mapped = jax.shard_map(block, in_specs=(P("i"), P()), out_specs=P("i"))
        return jax.jit(mapped)(points, queries)


# %% right="via shard map"
"""Uses shard_map; the block keeps a leading axis of length one."""

from jax.sharding import PartitionSpec as P


def pairwise_distances(points, queries):
    def block(points, queries):
        gaps = points[0][:, None] - queries
        return jnp.sqrt((gaps**2).sum(-1))[None]

    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(points)]), ("d",))
    mapped = jax.shard_map(block, mesh=mesh, in_specs=(P("d"), P()), out_specs=P("d"))
    return jax.jit(mapped)(points, queries)


# %% wrong="every device measures all points" fails="one row per device"
"""Broadcasts the points, measures all of them on each device, and keeps a row."""


def pairwise_distances(points, queries):
    D = len(points)

    def f(p, q):
        d = jnp.linalg.norm(p[:, :, None] - q, axis=-1)
        return jax.lax.dynamic_slice_in_dim(d, jax.lax.axis_index("devices"), 1)

    return jax.jit(
        jax.shard_map(f, mesh=make_mesh(D), in_specs=(P(), P()), out_specs=P("devices"))
    )(points, queries)


# %% wrong="all points are gathered" fails="one row per device"
"""Gathers the points that each device has, to take its own out again."""


def pairwise_distances(points, queries):
    def f(p, q):
        allp = jax.lax.all_gather(p, "i")
        p = allp[jax.lax.axis_index("i")]
        return jnp.linalg.norm(p[:, None] - q, axis=-1)

    return jax.pmap(f, axis_name="i", in_axes=(0, None))(points, queries)


# %% wrong="maps over all devices" fails="one row per device"
"""Makes a mesh of all devices: fewer rows cannot be split over it."""


def pairwise_distances(points, queries):
    def block(points, queries):
        return jnp.linalg.norm(points[:, :, None] - queries, axis=-1)

    mesh, rows = make_mesh(jax.device_count()), P("devices")
    mapped = jax.shard_map(block, mesh=mesh, in_specs=(rows, P()), out_specs=rows)
    return jax.jit(mapped)(points, queries)


# %% right="via stacked queries"
"""Stacks a copy of the few queries for each device."""


def pairwise_distances(points, queries):
    copies = jnp.stack([queries] * len(points))
    return jax.pmap(lambda p, q: jnp.linalg.norm(p[:, None] - q, axis=-1))(
        points, copies
    )


# %% wrong="hands out all blocks one by one" fails="one row per device"
"""Splits the points, and gives every device each of the blocks again, in an array of its own."""


def pairwise_distances(points, queries):
    mesh = make_mesh(len(points))
    points = jax.device_put(points, jax.sharding.NamedSharding(mesh, P("devices")))

    def own_row(queries, *blocks):
        rows = [jnp.linalg.norm(p[:, None] - queries, axis=-1) for p in blocks]
        return jnp.stack(rows)[jax.lax.axis_index("devices")][None]

    mapped = jax.shard_map(own_row, mesh=mesh, in_specs=P(), out_specs=P("devices"))
    return jax.jit(mapped)(queries, *[1 * points[d] for d in range(len(points))])
