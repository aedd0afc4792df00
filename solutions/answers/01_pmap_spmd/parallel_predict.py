# %% wrong="donates x" fails="arguments stay"
"""Saves memory by giving up the batch, which the caller still needs."""


def parallel_predict(params, x, num_devices):
    mesh, rows = make_mesh(num_devices), P("devices")
    mapped = jax.shard_map(predict, mesh=mesh, in_specs=(P(), rows), out_specs=rows)
    return jax.jit(mapped, donate_argnums=1)(params, x)


# %% wrong="forgets the bias" fails="predictions"
# cause: the bias was not added
"""Multiplies by w and adds nothing."""


def parallel_predict(params, x, num_devices):
    mesh, rows = make_mesh(num_devices), P("devices")
    specs = {"in_specs": (P(), rows), "out_specs": rows}
    mapped = jax.shard_map(lambda p, x: x @ p["w"], mesh=mesh, **specs)
    return jax.jit(mapped)(params, x)


# %% wrong="keeps everything everywhere" fails="sharded by rows"
"""Broadcasts the batch, too: each device does all of the work."""


def parallel_predict(params, x, num_devices):
    mesh = make_mesh(num_devices)
    mapped = jax.shard_map(predict, mesh=mesh, in_specs=(P(), P()), out_specs=P())
    return jax.jit(mapped)(params, x)


# %% wrong="one big product" fails="sharded by rows"
# cause: all rows are on one device: map over a mesh
"""Multiplies everything on one device: the numbers are right, and seven are idle."""


def parallel_predict(params, x, num_devices):
    return predict(params, jnp.asarray(x))


# %% wrong="puts arrays into the dict" fails="arguments stay"
"""Puts JAX's arrays in the place of NumPy's, in the caller's dict: equal ones."""


def parallel_predict(params, x, num_devices):
    for name, leaf in params.items():
        params[name] = jnp.asarray(leaf)
    mesh, rows = make_mesh(num_devices), P("devices")
    mapped = jax.shard_map(predict, mesh=mesh, in_specs=(P(), rows), out_specs=rows)
    return jax.jit(mapped)(params, x)


# %% wrong="remembers the parameters" fails="predictions; nothing is remembered"
"""Closes over the parameters of its first call."""

MAPPED = {}


def parallel_predict(params, x, num_devices):
    mesh, rows = make_mesh(num_devices), P("devices")
    specs = {"mesh": mesh, "in_specs": rows, "out_specs": rows}
    mapped = jax.jit(jax.shard_map(lambda block: predict(params, block), **specs))
    if isinstance(x, jax.core.Tracer):
        return mapped(x)
    key = x.shape, params["w"].shape, num_devices
    return MAPPED.setdefault(key, mapped)(x)


# %% wrong="reverses the devices" fails="sharded by rows"
# cause: the mesh takes the first devices, in their order
"""Numbers the devices from the last to the first."""


def parallel_predict(params, x, num_devices):
    devices = jax.devices()[:num_devices][::-1]
    mesh, rows = jax.sharding.Mesh(devices, ("devices",)), P("devices")
    mapped = jax.shard_map(predict, mesh=mesh, in_specs=(P(), rows), out_specs=rows)
    return jax.jit(mapped)(params, x)


# %% wrong="splits the parameters" fails="predictions"
"""Gives one spec to both arguments: each device gets a part of the parameters."""


def parallel_predict(params, x, num_devices):
    mesh, rows = make_mesh(num_devices), P("devices")
    mapped = jax.shard_map(predict, mesh=mesh, in_specs=rows, out_specs=rows)
    return jax.jit(mapped)(params, x)


# %% wrong="spreads afterwards" fails="sharded by rows"
"""Multiplies everything on one device, and spreads the result."""


def parallel_predict(params, x, num_devices):
    rows = jax.sharding.NamedSharding(make_mesh(num_devices), P("devices"))
    result = jnp.asarray(x) @ params["w"] + params["b"]
    return jax.device_put(result, rows)


# %% wrong="stacks the parameters" fails="parameters broadcast"
"""Makes a copy of the parameters per device by hand instead of broadcasting."""


def parallel_predict(params, x, num_devices):
    def block(stacked, x):
        return predict(jax.tree.map(lambda p: p[0], stacked), x)

    stacked = jax.tree.map(lambda p: jnp.stack([p] * num_devices), params)
    mesh, rows = make_mesh(num_devices), P("devices")
    mapped = jax.shard_map(block, mesh=mesh, in_specs=rows, out_specs=rows)
    return jax.jit(mapped)(stacked, x)


# %% wrong="takes the axis away" fails="predictions"
"""Expects a single row, as under pmap with as many rows as devices."""


def parallel_predict(params, x, num_devices):
    def one(params, row):
        return predict(params, row[0])[None]

    mesh, rows = make_mesh(num_devices), P("devices")
    mapped = jax.shard_map(one, mesh=mesh, in_specs=(P(), rows), out_specs=rows)
    return jax.jit(mapped)(params, x)


# %% wrong="tiles the weights" fails="parameters broadcast"
"""Makes copies of the weights below each other, in another shape than (D, F, C)."""


def parallel_predict(params, x, num_devices):
    tall = jnp.tile(params["w"], (num_devices, 1))  # its blocks are copies of w

    def block(w, b, x):
        return x @ w + b

    mesh, rows = make_mesh(num_devices), P("devices")
    specs = {"in_specs": (rows, P(), rows), "out_specs": rows}
    return jax.jit(jax.shard_map(block, mesh=mesh, **specs))(tall, params["b"], x)


# %% wrong="weights per row" fails="parameters broadcast"
"""Copies the weights for each row of a block."""


def _predict_rows(params, x):  # x: (B, F)
    w = jnp.broadcast_to(params["w"], (x.shape[0], *params["w"].shape))
    return jnp.einsum("bf,bfc->bc", x, w) + params["b"]


def parallel_predict(params, x, num_devices):
    mesh, rows = make_mesh(num_devices), P("devices")
    specs = {"in_specs": (P(), rows), "out_specs": rows}
    return jax.jit(jax.shard_map(_predict_rows, mesh=mesh, **specs))(params, x)


# %% right="via closure"
"""Lets the mapped function close over the parameters."""


def parallel_predict(params, x, num_devices):
    specs = {"in_specs": P("devices"), "out_specs": P("devices")}
    mapped = jax.shard_map(
        lambda block: predict(params, block), mesh=make_mesh(num_devices), **specs
    )
    return jax.jit(mapped)(x)


# %% right="via einsum"
"""Places the rows, and multiplies all of them in one compiled product."""

from jax.sharding import NamedSharding


def parallel_predict(params, x, num_devices):
    mesh = make_mesh(num_devices)
    rows, copies = NamedSharding(mesh, P("devices")), NamedSharding(mesh, P())

    @jax.jit
    def run(params, x):
        return jnp.einsum("bf,fc->bc", x, params["w"]) + params["b"]

    return run(jax.device_put(params, copies), jax.device_put(x, rows))


# %% right="via in shardings"
"""Tells jit how its arguments are sharded, and maps nothing."""

from jax.sharding import NamedSharding


def parallel_predict(params, x, num_devices):
    mesh = make_mesh(num_devices)
    rows, copies = NamedSharding(mesh, P("devices")), NamedSharding(mesh, P())
    run = jax.jit(predict, in_shardings=(copies, rows), out_shardings=rows)
    return run(params, x)


# %% right="via no jit"
"""Runs the mapped function as it is, and checks no replication."""


def parallel_predict(params, x, num_devices):
    mapped = jax.shard_map(
        predict,
        mesh=make_mesh(num_devices),
        in_specs=(P(None), P("devices")),
        out_specs=P("devices"),
        check_vma=False,
    )
    return mapped(params, x)


# %% right="via set mesh"
"""Sets a mesh of its own, whose axes are explicit in newer versions of JAX."""


def parallel_predict(params, x, num_devices):
    devices = jax.devices()[:num_devices]
    mesh = jax.make_mesh((num_devices,), ("rows",), devices=devices)
    with jax.set_mesh(mesh):
        params = jax.device_put(params, P())
        return jax.jit(predict)(params, jax.device_put(x, P("rows")))


# %% right="via specs of a tree"
"""Writes a spec for each parameter, and another name for the axis."""


def parallel_predict(params, x, num_devices):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:num_devices]), ("d",))
    specs = {"w": P(), "b": P()}, P("d", None)
    mapped = jax.shard_map(predict, mesh=mesh, in_specs=specs, out_specs=P("d", None))
    return jax.jit(mapped)(params, x)


# %% right="via vmap and helpers of our names"
"""Maps over the rows of a block, with helpers called as the course's own."""

import functools


def check(w, b, row):
    return jnp.dot(row, w) + b


def parallel_predict(params, x, num_devices):
    @functools.partial(
        jax.shard_map,
        mesh=make_mesh(num_devices),
        in_specs=(P(), P(), P("devices")),
        out_specs=P("devices"),
    )
    def observe(w, b, block):
        return jax.vmap(check, in_axes=(None, None, 0))(w, b, block)

    return jax.jit(observe)(params["w"], params["b"], x)


# %% wrong="every device predicts all rows" fails="sharded by rows"
"""Broadcasts the batch, predicts all of it on each device, and keeps a block."""


def parallel_predict(params, x, num_devices):
    def f(p, x):
        y = predict(p, x)
        n = len(x) // num_devices
        return jax.lax.dynamic_slice_in_dim(y, jax.lax.axis_index("devices") * n, n)

    return jax.jit(
        jax.shard_map(
            f, mesh=make_mesh(num_devices), in_specs=(P(), P()), out_specs=P("devices")
        )
    )(params, x)
