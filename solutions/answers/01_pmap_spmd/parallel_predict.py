# %% wrong="donates x" fails="arguments stay"
"""Saves memory by giving up the batch, which the caller still needs."""


def parallel_predict(params, x):
    mapped = jax.pmap(predict, in_axes=(None, 0), donate_argnums=1)
    return mapped(params, x)


# %% wrong="forgets in axes" fails="a prediction of each block"
# cause: pmap looked for a device axis in an argument that has none, or another one; in_axes=None replicates an argument
"""Maps the parameters too: pmap looks for a device axis in them."""


def parallel_predict(params, x):
    return jax.pmap(predict)(params, x)


# %% wrong="forgets the bias" fails="a prediction of each block"
# cause: the bias was not added
"""Multiplies by w and adds nothing."""


def parallel_predict(params, x):
    return jax.pmap(lambda p, x: x @ p["w"], in_axes=(None, 0))(params, x)


# %% wrong="one big product" fails="row d on device d"
# cause: jax.pmap runs on a device per row; here is one
"""Multiplies everything on one device: right on one device, idle on seven."""


def parallel_predict(params, x):
    return jnp.asarray(x) @ params["w"] + params["b"]


# %% wrong="puts arrays into the dict" fails="arguments stay"
"""Puts JAX's arrays in the place of NumPy's, in the caller's dict: equal ones."""

on_devices = jax.pmap(predict, in_axes=(None, 0))


def parallel_predict(params, x):
    for name, leaf in params.items():
        params[name] = jnp.asarray(leaf)
    return on_devices(params, x)


# %% wrong="remembers the parameters" fails="a prediction of each block; nothing is remembered"
"""Closes over the parameters of its first call."""

MAPPED = {}


def parallel_predict(params, x):
    key = x.shape, params["w"].shape
    if isinstance(x, jax.core.Tracer):
        return jax.pmap(lambda block: predict(params, block))(x)
    MAPPED.setdefault(key, jax.pmap(lambda block: predict(params, block)))
    return MAPPED[key](x)


# %% wrong="reverses the devices" fails="row d on device d"
"""Numbers the devices from the last to the first."""


def parallel_predict(params, x):
    devices = jax.devices()[: len(x)][::-1]
    return jax.pmap(predict, in_axes=(None, 0), devices=devices)(params, x)


# %% wrong="splits a bias as long as devices" fails="a prediction of each block"
"""Takes a bias with as many entries as there are devices for one that is stacked."""


def parallel_predict(params, x):
    stacked = len(x) > 1 and len(params["b"]) == len(x)
    axes = {"w": None, "b": 0 if stacked else None}
    return jax.pmap(predict, in_axes=(axes, 0))(params, x)


# %% wrong="spreads afterwards" fails="row d on device d"
"""Multiplies everything on one device, and spreads the result."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def parallel_predict(params, x):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(x)]), ("d",))
    result = jax.vmap(predict, in_axes=(None, 0))(params, x)
    return jax.device_put(result, NamedSharding(mesh, P("d")))


# %% wrong="stacks the parameters" fails="a prediction of each block; no stacked parameters"
"""Makes a copy of the parameters per device by hand instead of broadcasting."""


def parallel_predict(params, x):
    stacked = jax.tree.map(lambda p: jnp.stack([p] * len(x)), params)
    return jax.pmap(predict)(stacked, x)


# %% wrong="tiles the weights" fails="no stacked parameters"
"""Makes copies of the weights below each other, in another shape than (D, F, C)."""


def parallel_predict(params, x):
    num_devices, (width, _) = len(x), params["w"].shape
    tall = jnp.tile(params["w"], (num_devices, 1))

    def run(device, x):
        w = jax.lax.dynamic_slice_in_dim(tall, device * width, width)
        return predict({"w": w, "b": params["b"]}, x)

    return jax.pmap(run)(jnp.arange(num_devices), x)


# %% wrong="weights per row" fails="no stacked parameters"
"""Copies the weights for each row of a block.

With fewer rows than devices these are fewer than one copy per device.
"""


def _predict_rows(params, x):  # x: (B, F)
    w = jnp.broadcast_to(params["w"], (x.shape[0], *params["w"].shape))
    return jnp.einsum("bf,bfc->bc", x, w) + params["b"]


def parallel_predict(params, x):
    return jax.pmap(_predict_rows, in_axes=(None, 0))(params, x)


# %% right="via axes of a tree"
"""Names the axis of each parameter, and maps over the rows within a block, too."""


def parallel_predict(params, x):
    def one(w, b, row):
        return jnp.dot(row, w) + b

    block = jax.vmap(one, in_axes=(None, None, 0))
    check = jax.pmap(
        lambda p, x: block(p["w"], p["b"], x), in_axes=({"w": None, "b": None}, 0)
    )
    return check(params, x)


# %% right="via closure"
"""Lets the mapped function close over the parameters."""


def parallel_predict(params, x):
    return jax.pmap(lambda block: predict(params, block))(x)


# %% right="via einsum"
"""Places the rows, and multiplies all of them in one compiled product."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def parallel_predict(params, x):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(x)]), ("d",))
    rows, whole = NamedSharding(mesh, P("d")), NamedSharding(mesh, P())

    @jax.jit
    def run(params, x):
        return jnp.einsum("dbf,fc->dbc", x, params["w"]) + params["b"]

    return run(jax.device_put(params, whole), jax.device_put(x, rows))


# %% right="via partial"
"""Fixes the parameters by partial, so that one argument is left."""

import functools


def parallel_predict(params, x):
    expect = functools.partial(predict, {k: jnp.asarray(v) for k, v in params.items()})
    return jax.pmap(expect, axis_name="batch")(x)


# %% right="via set mesh"
"""Sets a mesh, whose axes are explicit in newer versions of JAX."""

from jax.sharding import PartitionSpec as P


def parallel_predict(params, x):
    mesh = jax.make_mesh((len(x),), ("rows",), devices=jax.devices()[: len(x)])
    with jax.set_mesh(mesh):
        params = jax.device_put(params, P())
        return jax.jit(predict)(params, jax.device_put(x, P("rows")))


# %% right="via shard map"
"""Uses shard_map: P() broadcasts, P("d") splits."""

from jax.sharding import PartitionSpec as P


def parallel_predict(params, x):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(x)]), ("d",))
    mapped = jax.shard_map(predict, mesh=mesh, in_specs=(P(), P("d")), out_specs=P("d"))
    return jax.jit(mapped)(params, x)
