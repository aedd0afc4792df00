# %% wrong="averages the gradients" fails="each device descends; no communication"
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


def replica_spread(params):
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))


# %% wrong="changes the callers dict" fails="row d on device d; arguments stay"
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


def replica_spread(params):
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))


# %% wrong="climbs the loss" fails="each device descends"
# cause: the gradient was added
"""Adds the gradient instead of subtracting it."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p + lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run)(params, x, y)


def replica_spread(params):
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))


# %% wrong="donates its parameters" fails="arguments stay"
"""Saves memory by giving up the parameters, which the caller still needs."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run, donate_argnums=0)(params, x, y)


def replica_spread(params):
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))


# %% wrong="everybody trains on the first shard" fails="each device descends"
"""Broadcasts the first device's data: right on one device, no spread on eight."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run, in_axes=(0, None, None))(params, x[0], y[0])


def replica_spread(params):
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))


# %% wrong="forgets smaller leaves" fails="the largest difference"
"""Measures the first array only: a drifting bias goes unseen."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run)(params, x, y)


def replica_spread(params):
    leaf = jax.tree.leaves(params)[-1]
    return float(np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max())


# %% wrong="forgets the sign" fails="the largest difference"
"""Takes the largest difference with its sign: a difference below the mean is not seen."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run)(params, x, y)


def replica_spread(params):
    leaves = jax.tree.leaves(params)
    return float(max((leaf - np.mean(leaf, axis=0)).max() for leaf in leaves))


# %% wrong="guard over all" fails="each device descends; nothing is remembered"
"""Where one replica diverges, all get their start back: that needs all devices'
numbers.
"""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, p):
            return jax.tree.map(lambda a, g: a - lr * g, p, jax.grad(mse)(p, x, y))

        return jax.lax.fori_loop(0, num_steps, step, params)

    new = jax.pmap(run)(params, x, y)
    fine = jnp.isfinite(new["w"]).all()
    rows = jax.pmap(lambda p: p)(params)
    return jax.tree.map(lambda a, b: jnp.where(fine, a, b), new, rows)


def replica_spread(params):
    return float(
        max(jnp.abs(a - a.mean(axis=0)).max() for a in jax.tree.leaves(params))
    )


# %% wrong="mean in own dtype" fails="the largest difference"
"""Takes the mean in an array's own dtype: that of ints is rounded."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, p):
            grads = jax.grad(mse)(p, x, y)
            return jax.tree.map(lambda a, g: a - lr * g, p, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run)(params, x, y)


def replica_spread(params):
    def spread(p):
        mean = jnp.mean(p, axis=0, dtype=p.dtype)  # a bfloat16 stays a bfloat16
        return jnp.abs(p - mean).max()

    return float(max(map(spread, jax.tree.leaves(params))))


# %% wrong="measures from the first replica" fails="the largest difference"
# cause: it is between two replicas
"""Measures the distance from replica 0, not from the mean."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run)(params, x, y)


def replica_spread(params):
    leaves = jax.tree.leaves(params)
    return float(max(np.abs(leaf - leaf[0]).max() for leaf in leaves))


# %% wrong="measures the standard deviation" fails="the largest difference"
# cause: it is a standard deviation
"""Takes the spread for a standard deviation, which hides a single stray replica."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run)(params, x, y)


def replica_spread(params):
    return float(max(np.std(leaf, axis=0).max() for leaf in jax.tree.leaves(params)))


# %% wrong="no step on the host" fails="row d on device d"
"""Loops over a pmapped step: after no step the caller's arrays come back."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def one(params, x, y):
        grads = jax.grad(mse)(params, x, y)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads)

    parallel = jax.pmap(one)
    for _ in range(num_steps):
        params = parallel(params, x, y)
        jax.block_until_ready(params)
    return params


def replica_spread(params):
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))


# %% wrong="remembers the learning rate" fails="each device descends; nothing is remembered"
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


def replica_spread(params):
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))


# %% wrong="spreads afterwards" fails="row d on device d"
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


def replica_spread(params):
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))


# %% wrong="starts from the first replica" fails="each device descends"
"""Broadcasts the first replica's parameters: all start alike, as in the check."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    first = jax.tree.map(lambda p: p[0], params)
    return jax.pmap(run, in_axes=(None, 0, 0))(first, x, y)


def replica_spread(params):
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))


# %% wrong="stops early" fails="each device descends; nothing is remembered"
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


def replica_spread(params):
    return float(max(jnp.abs(a - a.mean(0)).max() for a in jax.tree.leaves(params)))


# %% wrong="takes a step too few" fails="each device descends"
# cause: one step is missing
"""Counts from 1, and so takes a step less."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(1, num_steps, step, params)

    return jax.pmap(run)(params, x, y)


def replica_spread(params):
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))


# %% wrong="takes one step" fails="each device descends"
"""Forgets the loop: a single step, num_steps times as long."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        grads = jax.grad(mse)(params, x, y)
        return jax.tree.map(lambda p, g: p - num_steps * lr * g, params, grads)

    return jax.pmap(run)(params, x, y)


def replica_spread(params):
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))


# %% wrong="talks afterwards" fails="no communication"
"""Clips to the largest replica afterwards: nothing changes, and devices send."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(i, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    trained = jax.pmap(run)(params, x, y)
    return jax.tree.map(lambda p: jnp.minimum(p, p.max(0)), trained)


def replica_spread(params):
    return max(
        float(abs(a - a.mean(0)).max())
        for a in map(np.asarray, jax.tree.leaves(params))
    )


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


def replica_spread(params):
    flat = [np.reshape(leaf, (len(leaf), -1)) for leaf in jax.tree.leaves(params)]
    rows = np.concatenate(flat, axis=1)
    return np.max(np.abs(rows - rows.mean(0)))


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


def replica_spread(params):
    largest = 0
    for leaf in jax.tree_util.tree_leaves(params):
        leaf = jnp.asarray(leaf)
        largest = jnp.maximum(largest, jnp.abs(leaf - leaf.mean(axis=0)).max())
    return largest.item()


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


def replica_spread(params):
    spreads = jax.tree.map(lambda p: jnp.max(jnp.abs(p - p.mean(0))), params)
    return jax.tree.reduce(max, spreads)


# %% right="via python loop inside"
"""Loops in Python inside the function that is mapped, as the hint says."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        for _ in range(num_steps):
            grads = jax.grad(mse)(params, x, y)
            params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return params

    return jax.pmap(run)(params, x, y)


def replica_spread(params):
    worst = 0.0
    for leaf in jax.tree.leaves(params):
        gaps = np.asarray(leaf) - np.asarray(leaf).mean(axis=0)
        worst = max(worst, float(np.abs(gaps).max()))
    return worst


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


def replica_spread(params):
    def observe(largest, leaf):
        mean = sum(row for row in leaf) / len(leaf)
        return max(largest, *(float(np.abs(row - mean).max()) for row in leaf))

    return jax.tree.reduce(observe, params, 0.0)


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


def replica_spread(params):
    off = jax.tree.map(lambda p: np.ptp([np.abs(p - p.mean(0)).max(), 0]), params)
    return max(jax.tree.leaves(off))


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


def replica_spread(params):
    largest = 0.0
    for leaf in jax.tree.leaves(params):
        leaf = np.asarray(leaf, dtype=np.float64)
        largest = max(largest, np.abs(leaf - leaf.mean(axis=0)).max())
    return largest
