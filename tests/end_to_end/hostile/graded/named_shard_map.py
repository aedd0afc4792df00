"""Works on one device, or on all of all rows, in functions that are named shard_map.

The first answer maps, really, what one device has computed; in the second every device
works on the rows of all; the third splits the keys, and then brings them together.
"""

from hostile.build import attack

LESSON = "01_pmap_spmd"
POINTS = {"pairwise_distances": 3}

PREDICT = """
RAN = set()


def mesh_of(count):
    return jax.sharding.Mesh(np.array(jax.devices()[:count]), ("devices",))


def by_rows(count):
    return jax.sharding.NamedSharding(mesh_of(count), P("devices"))


@jax.jit
def shard_map(params, x):
    RAN.add("predict")
    return x @ params["w"] + params["b"]


def make_parallel_predict(num_devices):
    rows = {"in_specs": P("devices"), "out_specs": P("devices")}
    mapped = jax.jit(jax.shard_map(lambda y: y + 0, mesh=mesh_of(num_devices), **rows))
    return lambda params, x: mapped(shard_map(params, x))
"""
STEPS = """
def local_sgd_steps(params, x, y, lr, num_steps):
    def steps(params, x, y):
        def step(_, params):
            grads = jax.vmap(jax.grad(mse))(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        RAN.add("steps")
        own = jax.lax.axis_index("devices")
        params = jax.lax.fori_loop(0, num_steps, step, params)
        return jax.tree.map(lambda a: a[own][None], params)

    how = {"in_specs": P(), "out_specs": P("devices"), "check_vma": False}
    run = jax.shard_map(steps, mesh=mesh_of(len(x)), **how)
    return jax.jit(run)(params, x, y)
"""
ENSEMBLE = """
def init_ensemble(keys, sizes):
    pairs = [*zip(sizes[:-1], sizes[1:], strict=True)]

    def init(key):
        return [
            {"w": jax.random.normal(one, (n, m)) / n**0.5, "b": jnp.zeros(m)}
            for one, (n, m) in zip(jax.random.split(key, len(pairs)), pairs)
        ]

    @jax.jit
    def shard_map(keys):
        RAN.add("ensemble")
        return jax.vmap(init)(keys)

    rows = by_rows(len(keys))
    keys = jax.device_put(jax.device_put(keys, rows), rows.update(spec=P()))
    return jax.device_put(shard_map(keys), rows)
"""


def submission(lesson):
    answers = {"make_parallel_predict": PREDICT, "local_sgd_steps": STEPS}
    answers["init_ensemble"] = ENSEMBLE
    return attack(lesson, "pairwise_distances", "predict steps ensemble", **answers)
