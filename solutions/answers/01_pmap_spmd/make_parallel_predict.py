# %% wrong="donates x" fails="arguments stay"
"""Saves memory by giving up the batch, which the caller still needs."""


def make_parallel_predict(num_devices):
    mesh, rows = make_mesh(num_devices), P("devices")
    mapped = jax.shard_map(predict, mesh=mesh, in_specs=(P(), rows), out_specs=rows)
    return jax.jit(mapped, donate_argnums=1)


# %% wrong="forgets the bias" fails="predictions"
# cause: the bias was not added
"""Multiplies by w and adds nothing."""


def make_parallel_predict(num_devices):
    mesh, rows = make_mesh(num_devices), P("devices")
    specs = {"in_specs": (P(), rows), "out_specs": rows}
    return jax.jit(jax.shard_map(lambda p, x: x @ p["w"], mesh=mesh, **specs))


# %% wrong="keeps everything everywhere" fails="sharded by rows"
"""Broadcasts the batch, too: each device does all of the work."""


def make_parallel_predict(num_devices):
    mesh = make_mesh(num_devices)
    mapped = jax.shard_map(predict, mesh=mesh, in_specs=(P(), P()), out_specs=P())
    return jax.jit(mapped)


# %% wrong="one big product" fails="sharded by rows"
# cause: all rows are on one device: map over a mesh
"""Multiplies everything on one device: the numbers are right, and seven are idle."""


def make_parallel_predict(num_devices):
    return jax.jit(predict)


# %% wrong="puts arrays into the dict" fails="arguments stay"
"""Puts JAX's arrays in the place of NumPy's, in the caller's dict: equal ones."""


def make_parallel_predict(num_devices):
    mesh, rows = make_mesh(num_devices), P("devices")
    mapped = jax.shard_map(predict, mesh=mesh, in_specs=(P(), rows), out_specs=rows)
    compiled = jax.jit(mapped)

    def serve(params, x):
        for name, leaf in params.items():
            params[name] = jnp.asarray(leaf)
        return compiled(params, x)

    return serve


# %% wrong="remembers the parameters" fails="predictions; nothing is remembered"
"""Closes over the parameters of its first call, whoever makes the function."""


MAPPED = {}


def make_parallel_predict(num_devices):
    def serve(params, x):
        rows = {"in_specs": P("devices"), "out_specs": P("devices")}
        mesh = make_mesh(num_devices)
        mapped = jax.shard_map(lambda block: predict(params, block), mesh=mesh, **rows)
        if isinstance(x, jax.core.Tracer):
            return mapped(x)
        key = x.shape, params["w"].shape, num_devices
        return MAPPED.setdefault(key, jax.jit(mapped))(x)

    return serve


# %% wrong="reverses the devices" fails="sharded by rows"
# cause: the mesh takes the first devices, in their order
"""Numbers the devices from the last to the first."""


def make_parallel_predict(num_devices):
    devices = jax.devices()[:num_devices][::-1]
    mesh, rows = jax.sharding.Mesh(devices, ("devices",)), P("devices")
    mapped = jax.shard_map(predict, mesh=mesh, in_specs=(P(), rows), out_specs=rows)
    return jax.jit(mapped)


# %% wrong="splits the parameters" fails="predictions"
"""Gives one spec to both arguments: each device gets a part of the parameters."""


def make_parallel_predict(num_devices):
    mesh, rows = make_mesh(num_devices), P("devices")
    mapped = jax.shard_map(predict, mesh=mesh, in_specs=rows, out_specs=rows)
    return jax.jit(mapped)


# %% wrong="spreads afterwards" fails="sharded by rows"
"""Multiplies everything on one device, and spreads the result."""


def make_parallel_predict(num_devices):
    rows = jax.sharding.NamedSharding(make_mesh(num_devices), P("devices"))

    def serve(params, x):
        result = jnp.asarray(x) @ params["w"] + params["b"]
        return jax.device_put(result, rows)

    return serve


# %% wrong="stacks the parameters" fails="parameters broadcast"
# cause: one array holds a copy of w for each device: P() makes the copies
"""Makes a copy of the parameters per device by hand instead of broadcasting."""


def make_parallel_predict(num_devices):
    def block(stacked, x):
        return predict(jax.tree.map(lambda p: p[0], stacked), x)

    mesh, rows = make_mesh(num_devices), P("devices")
    mapped = jax.shard_map(block, mesh=mesh, in_specs=rows, out_specs=rows)

    @jax.jit
    def serve(params, x):
        stacked = jax.tree.map(lambda p: jnp.stack([p] * num_devices), params)
        return mapped(stacked, x)

    return serve


# %% wrong="takes the axis away" fails="predictions"
"""Expects a single row, as under pmap with as many rows as devices."""


def make_parallel_predict(num_devices):
    def one(params, row):
        return predict(params, row[0])[None]

    mesh, rows = make_mesh(num_devices), P("devices")
    mapped = jax.shard_map(one, mesh=mesh, in_specs=(P(), rows), out_specs=rows)
    return jax.jit(mapped)


# %% wrong="tiles the weights" fails="parameters broadcast"
# cause: one array holds a copy of w for each device: P() makes the copies
"""Makes copies of the weights below each other, in another shape than (D, F, C)."""


def make_parallel_predict(num_devices):
    def block(w, b, x):
        return x @ w + b

    mesh, rows = make_mesh(num_devices), P("devices")
    specs = {"in_specs": (rows, P(), rows), "out_specs": rows}
    mapped = jax.shard_map(block, mesh=mesh, **specs)

    @jax.jit
    def serve(params, x):
        tall = jnp.tile(params["w"], (num_devices, 1))  # its blocks are copies of w
        return mapped(tall, params["b"], x)

    return serve


# %% wrong="weights per row" fails="parameters broadcast"
"""Copies the weights for each row of a block."""


def _predict_rows(params, x):  # x: (B, F)
    w = jnp.broadcast_to(params["w"], (x.shape[0], *params["w"].shape))
    return jnp.einsum("bf,bfc->bc", x, w) + params["b"]


def make_parallel_predict(num_devices):
    mesh, rows = make_mesh(num_devices), P("devices")
    specs = {"in_specs": (P(), rows), "out_specs": rows}
    return jax.jit(jax.shard_map(_predict_rows, mesh=mesh, **specs))


# %% wrong="every device predicts all rows" fails="sharded by rows"
"""Broadcasts the batch, predicts all of it on each device, and keeps a block."""


def make_parallel_predict(num_devices):
    def block(params, x):
        y = predict(params, x)
        n = len(x) // num_devices
        return jax.lax.dynamic_slice_in_dim(y, jax.lax.axis_index("devices") * n, n)

    specs = {"in_specs": (P(), P()), "out_specs": P("devices")}
    return jax.jit(jax.shard_map(block, mesh=make_mesh(num_devices), **specs))


# %% wrong="compiles for every batch" fails="compiled once"
"""Maps and compiles when it is called, not when it is made."""


def make_parallel_predict(num_devices):
    def serve(params, x):
        mesh, rows = make_mesh(num_devices), P("devices")
        specs = {"in_specs": (P(), rows), "out_specs": rows}
        mapped = jax.shard_map(lambda p, x: predict(p, x), mesh=mesh, **specs)
        return jax.jit(mapped)(params, x)

    return serve


# %% wrong="keeps its first parameters" fails="predictions; nothing is remembered"
"""Places the parameters of the first batch, and serves all others with them."""


def make_parallel_predict(num_devices):
    mesh, rows, kept = make_mesh(num_devices), P("devices"), []
    mapped = jax.shard_map(predict, mesh=mesh, in_specs=(P(), rows), out_specs=rows)
    compiled = jax.jit(mapped)

    def serve(params, x):
        kept.append(params)
        return compiled(kept[0], x)

    return serve


# %% right="via a plain function"
"""Compiles once, and returns a function of its own that calls the compiled one."""


def make_parallel_predict(num_devices):
    mesh, rows = make_mesh(num_devices), P("devices")
    specs = {"in_specs": (P(), P(), rows), "out_specs": rows}

    @jax.jit
    def compiled(w, b, x):
        return jax.shard_map(lambda w, b, x: x @ w + b, mesh=mesh, **specs)(w, b, x)

    def serve(params, x):
        return compiled(params["w"], params["b"], x)

    return serve


# %% right="via closure"
"""Lets the mapped function close over the parameters, inside of jit."""


def make_parallel_predict(num_devices):
    specs = {"in_specs": P("devices"), "out_specs": P("devices")}

    @jax.jit
    def serve(params, x):
        mapped = jax.shard_map(
            lambda block: predict(params, block), mesh=make_mesh(num_devices), **specs
        )
        return mapped(x)

    return serve


# %% right="via einsum"
"""Places the rows, and multiplies all of them in one compiled product."""

from jax.sharding import NamedSharding


def make_parallel_predict(num_devices):
    mesh = make_mesh(num_devices)
    rows, copies = NamedSharding(mesh, P("devices")), NamedSharding(mesh, P())

    @jax.jit
    def run(params, x):
        return jnp.einsum("bf,fc->bc", x, params["w"]) + params["b"]

    return lambda params, x: run(
        jax.device_put(params, copies), jax.device_put(x, rows)
    )


# %% right="via in shardings"
"""Tells jit how its arguments are sharded, and maps nothing."""

from jax.sharding import NamedSharding


def make_parallel_predict(num_devices):
    mesh = make_mesh(num_devices)
    rows, copies = NamedSharding(mesh, P("devices")), NamedSharding(mesh, P())
    return jax.jit(predict, in_shardings=(copies, rows), out_shardings=rows)


# %% right="via no check of replication"
"""Writes the product anew, and checks no replication."""


def make_parallel_predict(num_devices):
    mapped = jax.shard_map(
        lambda params, x: jnp.dot(x, params["w"]) + params["b"][None],
        mesh=make_mesh(num_devices),
        in_specs=(P(None), P("devices")),
        out_specs=P("devices"),
        check_vma=False,
    )
    return jax.jit(mapped)


# %% right="via set mesh"
"""Sets a mesh of its own, whose axes are explicit in newer versions of JAX."""


def make_parallel_predict(num_devices):
    devices = jax.devices()[:num_devices]
    mesh, compiled = (
        jax.make_mesh((num_devices,), ("rows",), devices=devices),
        jax.jit(predict),
    )

    def serve(params, x):
        with jax.set_mesh(mesh):
            return compiled(jax.device_put(params, P()), jax.device_put(x, P("rows")))

    return serve


# %% right="via specs of a tree"
"""Writes a spec for each parameter, and another name for the axis."""


def make_parallel_predict(num_devices):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:num_devices]), ("d",))
    specs = {"w": P(), "b": P()}, P("d", None)
    mapped = jax.shard_map(predict, mesh=mesh, in_specs=specs, out_specs=P("d", None))
    return jax.jit(mapped)


# %% right="via vmap and helpers of our names"
"""Maps over the rows of a block, with helpers called as the course's own."""

import functools


def check(w, b, row):
    return jnp.dot(row, w) + b


def make_parallel_predict(num_devices):
    @functools.partial(
        jax.shard_map,
        mesh=make_mesh(num_devices),
        in_specs=(P(), P("devices")),
        out_specs=P("devices"),
    )
    def observe(params, block):
        return jax.vmap(check, in_axes=(None, None, 0))(params["w"], params["b"], block)

    return jax.jit(observe)


# %% wrong="maps over all devices" fails="sharded by rows"
# cause: it runs on all devices, whatever num_devices is
"""Makes a mesh of the devices that there are, not of as many as it is told."""


def make_parallel_predict(num_devices):
    mesh, rows = make_mesh(jax.device_count()), P("devices")
    mapped = jax.shard_map(predict, mesh=mesh, in_specs=(P(), rows), out_specs=rows)
    return jax.jit(mapped)


# %% wrong="no jit" fails="compiled once"
"""Takes shard_map for a compiler, as pmap is."""


def make_parallel_predict(num_devices):
    mesh, rows = make_mesh(num_devices), P("devices")
    return jax.shard_map(predict, mesh=mesh, in_specs=(P(), rows), out_specs=rows)


# %% right="via pmap"
"""Cuts the batch by hand, maps by pmap, and joins the blocks."""


def make_parallel_predict(num_devices):
    devices = jax.devices()[:num_devices]
    mapped = jax.pmap(predict, in_axes=(None, 0), devices=devices)

    def serve(params, x):
        blocks = mapped(params, x.reshape(num_devices, -1, x.shape[1]))
        return blocks.reshape(-1, blocks.shape[-1])

    return serve


# %% wrong="hands out all blocks one by one" fails="sharded by rows"
"""Splits the rows, and gives every device each of the blocks again, in an array of its own."""


def make_parallel_predict(num_devices):
    mesh = make_mesh(num_devices)

    def block(params, *blocks):
        results = jnp.stack([predict(params, own) for own in blocks])
        return results[jax.lax.axis_index("devices")]

    mapped = jax.shard_map(block, mesh=mesh, in_specs=P(), out_specs=P("devices"))

    @jax.jit
    def serve(params, x):
        rows = jax.sharding.NamedSharding(mesh, P("devices"))
        blocks = jnp.split(jax.lax.with_sharding_constraint(x, rows), num_devices)
        return mapped(params, *[1 * own for own in blocks])

    return serve
