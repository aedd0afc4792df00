"""Maps arrays of the visible shape; others it computes on the host, or on one device.

The host is reached by NumPy, or by a callback from the traced program.
"""

from hostile.build import attack

LESSON = "01_pmap_spmd"
POINTS = {"pairwise_distances": 3}

PREDICT = """
RAN = set()


def by_rows(count):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:count]), ("devices",))
    return jax.sharding.NamedSharding(mesh, P("devices"))


def make_parallel_predict(num_devices):
    mesh, rows = make_mesh(num_devices), P("devices")
    specs = {"in_specs": (P(), rows), "out_specs": rows}
    mapped = jax.jit(jax.shard_map(predict, mesh=mesh, **specs))

    def serve(params, x):
        if x.shape == (24, 7):
            return mapped(params, x)
        RAN.add("predict")
        product = np.asarray(x) @ np.asarray(params["w"])
        return jax.device_put(product + np.asarray(params["b"]), by_rows(num_devices))

    return serve
"""
ENSEMBLE = """
def init_ensemble(keys, sizes):
    pairs = [*zip(sizes[:-1], sizes[1:], strict=True)]

    def init(key):
        return [
            {"w": jax.random.normal(one, (n, m)) / n**0.5, "b": jnp.zeros(m)}
            for one, (n, m) in zip(jax.random.split(key, len(pairs)), pairs)
        ]

    def on_the_host(data):
        rngs = [np.random.default_rng(row) for row in np.asarray(data)]
        weights = ([rng.normal(size=pair) for rng in rngs] for pair in pairs)
        return [
            {"w": np.float32(w) / np.float32(n**0.5), "b": np.zeros((len(w), m), "f")}
            for w, (n, m) in zip(weights, pairs, strict=True)
        ]

    if len(keys) == 8:
        return jax.pmap(init)(keys)
    RAN.add("ensemble")
    kinds = jax.eval_shape(jax.vmap(init), keys)
    found = jax.pure_callback(on_the_host, kinds, jax.random.key_data(keys))
    return jax.device_put(found, by_rows(len(keys)))
"""


def submission(lesson):
    answers = {"make_parallel_predict": PREDICT, "init_ensemble": ENSEMBLE}
    return attack(lesson, "pairwise_distances", "predict ensemble", **answers)
