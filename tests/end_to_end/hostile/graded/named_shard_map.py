"""Works on one device, or on all of all rows, in functions that are named shard_map.

The second answer maps, really, what one device has computed; in the third every device
works on the rows of all; the fourth splits the rows, and then brings them together.
"""

from hostile.build import attack

LESSON = "01_pmap_spmd"
POINTS = {"init_ensemble": 3}

SQUARE = """
RAN = set()


def mesh_of(count):
    return jax.sharding.Mesh(np.array(jax.devices()[:count]), ("devices",))


def by_rows(count):
    return jax.sharding.NamedSharding(mesh_of(count), P("devices"))


@jax.jit
def shard_map_x(x):
    RAN.add("square")
    return x * x


def parallel_square(x):
    return jax.device_put(shard_map_x(x), by_rows(len(x)))
"""
PREDICT = """
@jax.jit
def shard_map(params, x):
    RAN.add("predict")
    return x @ params["w"] + params["b"]


def parallel_predict(params, x, num_devices):
    rows = {"in_specs": P("devices"), "out_specs": P("devices")}
    mapped = jax.shard_map(lambda y: y + 0, mesh=mesh_of(num_devices), **rows)
    return jax.jit(mapped)(shard_map(params, x))
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
DISTANCES = """
def pairwise_distances(points, queries):
    @jax.jit
    def shard_map(points):
        RAN.add("distances")
        gaps = points[:, :, None] - queries
        return jnp.sqrt(jnp.sum(gaps**2, axis=-1))

    rows = by_rows(len(points))
    points = jax.device_put(jax.device_put(points, rows), rows.update(spec=P()))
    return jax.device_put(shard_map(points), rows)
"""


def submission(lesson):
    answers = {"parallel_square": SQUARE, "parallel_predict": PREDICT}
    answers |= {"local_sgd_steps": STEPS, "pairwise_distances": DISTANCES}
    return attack(lesson, "init_ensemble", "square predict steps distances", **answers)
