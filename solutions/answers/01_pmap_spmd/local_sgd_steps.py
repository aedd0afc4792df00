# %% wrong="averages the gradients" fails="own descent; no communication"
# cause: gradients were averaged
"""Adds the cure too early: with a pmean the replicas stay together; on one device
nobody can tell.
"""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.lax.pmean(jax.grad(mse)(params, x, y), "d")
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run, axis_name="d")(params, x, y)


# %% wrong="changes the callers dict" fails="arguments stay"
"""Writes each step's result into the dict that it was given."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def step(params, x, y):
        grads = jax.grad(mse)(params, x, y)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads)

    parallel = jax.pmap(step)
    for number in range(num_steps):
        params.update(parallel(params, x, y))
        if number % 10 == 9:
            jax.block_until_ready(params)
    return params


# %% wrong="climbs the loss" fails="own descent"
# cause: the gradient was added
"""Adds the gradient instead of subtracting it."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p + lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run)(params, x, y)


# %% wrong="donates its parameters" fails="arguments stay"
"""Saves memory by giving up the parameters, which the caller still needs."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run, donate_argnums=0)(params, x, y)


# %% wrong="everybody trains on the first shard" fails="own descent"
# cause: all replicas used the data of row 0
"""Broadcasts the first device's data: right on one device, no spread on eight."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run, in_axes=(0, None, None))(params, x[0], y[0])


# %% wrong="remembers the learning rate" fails="own descent; nothing is remembered"
"""Compiles once for each shape, with the learning rate of the first call."""

COMPILED = {}


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    mapped = COMPILED.setdefault((x.shape, num_steps), jax.pmap(run))
    return mapped(params, x, y)


# %% wrong="spreads afterwards" fails="one row per device"
"""Trains all replicas on one device, and spreads them."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(x)]), ("d",))
    result = jax.vmap(run)(params, x, y)
    return jax.device_put(result, NamedSharding(mesh, P("d")))


# %% wrong="starts from the first replica" fails="own descent"
# cause: all replicas started from row 0
"""Broadcasts the first replica's parameters: all start alike."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    first = jax.tree.map(lambda p: p[0], params)
    return jax.pmap(run, in_axes=(None, 0, 0))(first, x, y)


# %% wrong="stops early" fails="own descent"
"""Stands still where the gradient is small."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, p):
            g = jax.grad(mse)(p, x, y)
            size = jnp.sqrt(jnp.sum(g["w"] ** 2) + g["b"] ** 2)
            return jax.tree.map(
                lambda a, d: jnp.where(size > 0.01, a - lr * d, a), p, g
            )

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run)(params, x, y)


# %% wrong="takes a step too few" fails="own descent"
# cause: one step is missing
"""Counts from 1, and so takes a step less."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(1, num_steps, step, params)

    return jax.pmap(run)(params, x, y)


# %% wrong="takes one step" fails="own descent"
# cause: all steps use the gradient of the first
"""Forgets the loop: a single step, num_steps times as long."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        grads = jax.grad(mse)(params, x, y)
        return jax.tree.map(lambda p, g: p - num_steps * lr * g, params, grads)

    return jax.pmap(run)(params, x, y)


# %% right="via gradients by hand"
"""Writes the gradient out, and passes lr to the devices as an argument."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def take(params, x, y, lr):
        w, b = params["w"], params["b"]
        for _ in range(num_steps):
            error = jnp.dot(x, w) + b - y
            w, b = w - lr * 2 * (error @ x) / len(y), b - lr * 2 * error.mean()
        return {"w": w, "b": b}

    return jax.pmap(take, in_axes=(0, 0, 0, None))(params, x, y, lr)


# %% right="via placed arrays"
"""Places rows on a mesh, and maps a compiled loop by vmap."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def local_sgd_steps(params, x, y, lr, num_steps):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(x)]), ("d",))
    rows = NamedSharding(mesh, P("d"))
    gradient = jax.vmap(jax.grad(mse))

    @jax.jit
    def run(params, x, y):
        def step(_, params):
            grads = gradient(params, x, y)
            params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
            return jax.lax.with_sharding_constraint(params, rows)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return run(*jax.device_put((params, x, y), rows))


# %% right="via python loop"
"""Loops in Python over a pmapped step, and waits now and then."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def step(params, x, y):
        grads = jax.grad(mse)(params, x, y)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads)

    parallel = jax.pmap(step)
    for number in range(num_steps):
        params = parallel(params, x, y)
        if number % 10 == 9:
            jax.block_until_ready(params)
    return jax.pmap(lambda p: p)(params)  # on the devices after no step too


# %% right="via python loop inside"
"""Loops in Python inside the function that is mapped, as the hint says."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        for _ in range(num_steps):
            grads = jax.grad(mse)(params, x, y)
            params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return params

    return jax.pmap(run)(params, x, y)


# %% right="via python loop outside"
"""Loops in Python over a mapped step, and waits after each."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def one(params, x, y):
        grads = jax.grad(mse)(params, x, y)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads)

    parallel = jax.pmap(one)
    for _ in range(num_steps):
        params = parallel(params, x, y)
        jax.block_until_ready(params)
    return params


# %% right="via recursion and a class"
"""Takes a step and then the others, by an object that is callable."""


class Descent:
    def __init__(self, lr):
        self.lr = lr

    def __call__(self, params, x, y, num_steps):
        if not num_steps:
            return params
        _, grads = jax.value_and_grad(mse)(params, x, y)
        w, b = (params[name] - self.lr * grads[name] for name in ("w", "b"))
        return self(dict(w=w, b=b), x, y, num_steps - 1)


def local_sgd_steps(params, x, y, lr, num_steps):
    mapped = jax.pmap(Descent(lr), static_broadcasted_argnums=3)
    return mapped(params, x, y, num_steps)


# %% right="via set mesh"
"""Sets a mesh, and maps one step over its axis by shard_map."""

from jax.sharding import PartitionSpec as P


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def check(params, _):
            grads = jax.vmap(jax.grad(mse))(params, x, y)
            return {k: params[k] - lr * grads[k] for k in params}, None

        return jax.lax.scan(check, params, jnp.arange(num_steps))[0]

    mesh = jax.make_mesh((len(x),), ("i",), devices=jax.devices()[: len(x)])
    with jax.set_mesh(mesh):
        arrays = jax.device_put((params, x, y), P("i"))
        mapped = jax.shard_map(run, in_specs=P("i"), out_specs=P("i"))
        return jax.jit(mapped)(*arrays)


# %% right="via shard map and scan"
"""Scans inside shard_map, whose blocks keep a leading axis of length one."""

from jax.sharding import PartitionSpec as P


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(params, _):
            grads = jax.vmap(jax.grad(mse))(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads), None

        return jax.lax.scan(step, params, length=num_steps)[0]

    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(x)]), ("d",))
    mapped = jax.shard_map(
        run, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False
    )
    return jax.jit(mapped)(params, x, y)


# %% wrong="every device trains all replicas" fails="one row per device"
"""Broadcasts everything, trains all replicas on each device, and keeps one."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def one(p, x, y):
        for _ in range(num_steps):
            g = jax.grad(mse)(p, x, y)
            p = jax.tree.map(lambda a, b: a - lr * b, p, g)
        return p

    def f(p, x, y):
        r = jax.vmap(one)(p, x, y)
        return jax.tree.map(
            lambda a: jax.lax.dynamic_slice_in_dim(a, jax.lax.axis_index("devices"), 1),
            r,
        )

    return jax.jit(
        jax.shard_map(f, mesh=make_mesh(len(x)), in_specs=P(), out_specs=P("devices"))
    )(params, x, y)


# %% wrong="takes a step too many" fails="own descent"
# cause: there is one step too many
"""Takes a step before the loop, too."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def step(params, x, y):
        grads = jax.grad(mse)(params, x, y)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads)

    parallel = jax.pmap(step)
    params = parallel(params, x, y)
    for _ in range(num_steps):
        params = parallel(params, x, y)
    return params


# %% wrong="maps over all devices" fails="one row per device"
"""Makes a mesh of all devices: fewer rows cannot be split over it."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        params, x, y = jax.tree.map(lambda a: a[0], (params, x, y))
        for _ in range(num_steps):
            grads = jax.grad(mse)(params, x, y)
            params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return jax.tree.map(lambda a: a[None], params)

    mesh, rows = make_mesh(jax.device_count()), P("devices")
    mapped = jax.shard_map(run, mesh=mesh, in_specs=rows, out_specs=rows)
    return jax.jit(mapped)(params, x, y)


# %% wrong="keeps the axis of a block" fails="own descent"
# cause: an axis of length 1 is left over: the blocks of shard_map keep their leading axis
"""Takes a block of shard_map for one of pmap, which has no leading axis."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        for _ in range(num_steps):
            grads = jax.grad(mse)(params, x, y)
            params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return params

    mesh, rows = make_mesh(len(x)), P("devices")
    mapped = jax.shard_map(run, mesh=mesh, in_specs=rows, out_specs=rows)
    return jax.jit(mapped)(params, x, y)
