"""Maps arrays of the visible shape; others it computes on the host, or on one device.

The host is reached by NumPy, or by a callback from the traced program.
"""

from hostile.build import attack

LESSON = "01_pmap_spmd"
POINTS = {"init_ensemble": 3}

SQUARE = """
RAN = set()


def by_rows(count):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:count]), ("devices",))
    return jax.sharding.NamedSharding(mesh, P("devices"))


def parallel_square(x):
    if x.shape == (8, 2):
        return jax.pmap(jnp.square)(x)
    RAN.add("square")
    return jax.device_put(np.square(np.asarray(x)), by_rows(len(x)))
"""
PREDICT = """
def parallel_predict(params, x, num_devices):
    if x.shape == (24, 7):
        mesh, rows = make_mesh(num_devices), P("devices")
        specs = {"in_specs": (P(), rows), "out_specs": rows}
        return jax.jit(jax.shard_map(predict, mesh=mesh, **specs))(params, x)
    RAN.add("predict")
    return jax.device_put(x @ params["w"] + params["b"], by_rows(num_devices))
"""
DISTANCES = """
def on_the_host(points, queries):
    gaps = np.asarray(points)[:, :, None] - np.asarray(queries)
    return np.sqrt((gaps**2).sum(-1))


def pairwise_distances(points, queries):
    def block(points, queries):
        gaps = points[:, None] - queries
        return jnp.sqrt(jnp.sum(gaps**2, axis=-1))

    if points.shape == (8, 4, 3):
        return jax.pmap(block, in_axes=(0, None))(points, queries)
    RAN.add("distances")
    kind = jax.ShapeDtypeStruct((*points.shape[:2], len(queries)), points.dtype)
    found = jax.pure_callback(on_the_host, kind, points, queries)
    return jax.device_put(found, by_rows(len(points)))
"""


def submission(lesson):
    answers = {"parallel_square": SQUARE, "parallel_predict": PREDICT}
    answers["pairwise_distances"] = DISTANCES
    return attack(lesson, "init_ensemble", "square predict distances", **answers)
