# %% wrong="always all devices" fails="same numbers; replicated result; one all-reduce"
"""Builds the mesh of all devices, whatever num_devices says."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        def loss_of(params):
            return jax.lax.pmean(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")
    return compiled_step(num_devices)(params, x, y, lr)


# %% wrong="averages again" fails="one all-reduce"
"""Averages in the loss, and the finished gradients again: twice the bytes."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        def loss_of(params):
            return jax.lax.pmean(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        loss, grads = jax.lax.pmean((loss, grads), "devices")
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    return compiled_step(num_devices)(params, x, y, lr)


# %% wrong="compiles for each learning rate" fails="no recompilation"
# cause: lr is a constant of the program: pass it as an argument that is not static
"""Keeps a program for each learning rate, which a schedule changes at every step."""


@functools.cache
def compiled_step(num_devices, lr):
    def step(params, x, y):
        def loss_of(params):
            return jax.lax.pmean(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"))
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    return compiled_step(num_devices, float(lr))(params, x, y)


# %% wrong="compiles in each call" fails="no recompilation"
# cause: each call makes a new function, which is compiled again: make one, and keep it
"""Makes the mapped function inside: jit meets a new one in each call."""


def shard_map_step(params, x, y, lr, num_devices):
    def step(params, x, y):
        def loss_of(params):
            return jax.lax.pmean(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"))
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)(params, x, y)


# %% wrong="computes on one device" fails="own rows only; one all-reduce"
# cause: the program splits no rows: shard_map does, with P("devices") for x and y
"""Takes the step on one device, and copies the result to the others."""


@jax.jit
def jitted_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def shard_map_step(params, x, y, lr, num_devices):
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    found = jitted_step(params, x, y, lr)
    return jax.device_put(found, jax.sharding.NamedSharding(mesh, P()))


# %% wrong="divides by eight" fails="same numbers"
"""Divides the summed gradient by eight, however many devices there are."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        params = jax.tree.map(lambda p, g: p - lr * g / 8, params, grads)
        return params, jax.lax.pmean(loss, "devices")

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    return compiled_step(num_devices)(params, x, y, lr)


# %% wrong="divides twice" fails="same numbers"
# cause: the gradient is 0.125 times the right one
"""Averages in the loss, and once more after it: D times too small."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        def loss_of(params):
            return jax.lax.pmean(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        step_size = lr / num_devices
        return jax.tree.map(lambda p, g: p - step_size * g, params, grads), loss

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:num_devices]), ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")
    return compiled_step(num_devices)(params, x, y, lr)


# %% wrong="donates the parameters" fails="arguments stay"
"""Donates the parameters, which the caller may still need."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        def loss_of(params):
            return jax.lax.pmean(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped, donate_argnums=0)


def shard_map_step(params, x, y, lr, num_devices):
    return compiled_step(num_devices)(params, x, y, lr)


# %% wrong="every device takes all rows" fails="own rows only; one all-reduce"
# cause: the program splits no rows: shard_map does, with P("devices") for x and y
"""Leaves the batch whole: right numbers, eight times the work."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:num_devices]), ("devices",))
    specs = (P(), P(), P(), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")
    return compiled_step(num_devices)(params, x, y, lr)


# %% wrong="forgets pmean" fails="same numbers; loss before the step"
# cause: out_specs say that the result is the same on all devices, but it differs: pmean it, and the loss inside what you differentiate
"""Returns each device's own loss, which P() cannot describe."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    return compiled_step(num_devices)(params, x, y, lr)


# %% wrong="jit on one device" fails="own rows only; replicated result; one all-reduce"
# cause: the program splits no rows: shard_map does, with P("devices") for x and y
"""Forgets the devices: jit alone computes on the first."""


@jax.jit
def jitted_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def shard_map_step(params, x, y, lr, num_devices):
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")
    return jitted_step(params, x, y, lr)


# %% wrong="leaves it to jit" fails="one all-reduce"
# cause: the compiler adds the all-reduce; here your own step does, in shard_map
"""Places the arrays and lets the compiler split the work: lesson 4, not shard_map."""


@jax.jit
def jitted_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def shard_map_step(params, x, y, lr, num_devices):
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    whole, split = (jax.sharding.NamedSharding(mesh, s) for s in (P(), P("devices")))
    params = jax.device_put(params, whole)
    return jitted_step(params, jax.device_put(x, split), jax.device_put(y, split), lr)


# %% wrong="pmap step word for word" fails="same numbers; one all-reduce"
# cause: the gradient is 8 times the right one
"""Averages a gradient that shard_map has already summed: D times too large, and right
on one device.
"""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        loss, grads = jax.lax.pmean((loss, grads), "devices")
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:num_devices]), ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")
    return compiled_step(num_devices)(params, x, y, lr)


# %% wrong="remembers the learning rate" fails="same numbers"
"""Keeps the first program for a number of devices, with the learning rate in it."""

made = {}


def shard_map_step(params, x, y, lr, num_devices):
    def step(params, x, y):
        def loss_of(params):
            return jax.lax.pmean(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    if num_devices not in made:
        mesh = Mesh(jax.devices()[:num_devices], ("devices",))
        specs = (P(), P("devices"), P("devices"))
        mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
        made[num_devices] = jax.jit(mapped)
    return made[num_devices](params, x, y)


# %% wrong="sends the counts" fails="one all-reduce"
"""Adds up the devices' numbers of rows, which are known: a number more to send."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        rows = jnp.ones_like(y).sum()
        total = jax.lax.psum(rows, "devices")
        share = jax.tree.map(lambda leaf: leaf * rows / total, (loss, grads))
        loss, grads = jax.lax.psum(share, "devices")
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(
        step, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False
    )
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    return compiled_step(num_devices)(params, x, y, lr)


# %% wrong="sums gradients and losses" fails="same numbers; loss before the step; one all-reduce"
# cause: the gradient is 64 times the right one; the loss is a sum
"""Adds up by psum what shard_map has added up already: 64 times the gradient."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        loss, grads = jax.lax.psum((loss, grads), "devices")
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    return compiled_step(num_devices)(params, x, y, lr)


# %% wrong="sums the losses" fails="same numbers"
# cause: the gradient is 8 times the right one
"""Differentiates the sum of the devices' means: D times too large as well."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        def loss_of(params):
            return jax.lax.psum(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return params, loss / num_devices

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:num_devices]), ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")
    return compiled_step(num_devices)(params, x, y, lr)


# %% wrong="syncs nothing" fails="same numbers; loss before the step; replicated result; one all-reduce"
# cause: no device sends anything
"""Turns the tracking off and forgets the sync: the result is device 0's alone."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:num_devices]), ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(
        step, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False
    )
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")
    return compiled_step(num_devices)(params, x, y, lr)


# %% wrong="takes the last devices" fails="same numbers"
# cause: the arrays of one program are on different sets of devices
"""Counts devices from the end."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        def loss_of(params):
            return jax.lax.pmean(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = Mesh(jax.devices()[-num_devices:], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    return compiled_step(num_devices)(params, x, y, lr)


# %% wrong="uses NumPy but for the example" fails="own rows only; replicated result; one all-reduce"
"""Splits the rows of the examples, and of classes; others go through NumPy."""


def step(params, x, y, lr):
    def loss_of(params):
        return jax.lax.pmean(mlp_loss(params, x, y), "devices")

    loss, grads = jax.value_and_grad(loss_of)(params)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


@functools.cache
def compiled_step(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    return jax.jit(jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P()))


def shard_map_step(params, x, y, lr, num_devices):
    if len(x) == 8 * jax.device_count() or y.dtype == np.int32:
        return compiled_step(num_devices)(params, x, y, lr)
    p = {name: np.asarray(leaf) for name, leaf in params.items()}
    hidden = np.tanh(x @ p["w1"] + p["b1"])
    error = (hidden @ p["w2"] + p["b2"])[:, 0] - y
    slope = 2 * error[:, None] / len(x)
    back = slope @ p["w2"].T * (1 - hidden**2)
    grads = {"w1": x.T @ back, "b1": back.sum(0)}
    grads |= {"w2": hidden.T @ slope, "b2": slope.sum(0)}
    new = {name: np.float32(p[name] - lr * grads[name]) for name in p}
    return new, np.float32((error**2).mean())


# %% right="via check vma false"
"""Turns the tracking off: then pmap's step is right, word for word."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        loss, grads = jax.lax.pmean((loss, grads), "devices")
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:num_devices]), ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(
        step, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False
    )
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")
    return compiled_step(num_devices)(params, x, y, lr)


# %% right="via divided gradient"
"""Knows that the gradient comes summed, and divides it by the devices."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        grads = jax.tree.map(lambda g: g / num_devices, grads)
        params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return params, jax.lax.pmean(loss, "devices")

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:num_devices]), ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")
    return compiled_step(num_devices)(params, x, y, lr)


# %% right="via flat gradient"
"""Flattens loss and gradients, which it divides and adds up by itself."""

from jax.flatten_util import ravel_pytree

programs = {}


def shard_map_step(params, x, y, lr, num_devices):
    if num_devices not in programs:
        programs[num_devices] = make_program(num_devices, "d")
    return programs[num_devices](params, x, y, lr)


def make_program(num_devices, axis):
    mesh = Mesh(jax.devices()[:num_devices], (axis,))

    def step(params, x, y, lr):
        flat, back = ravel_pytree(jax.value_and_grad(mlp_loss)(params, x, y))
        loss, grads = back(jax.lax.psum(flat / num_devices, axis))
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(P(), P(axis), P(axis), P()),
        out_specs=P(),
        check_vma=False,
    )
    return jax.jit(mapped)


# %% right="via gradient outside"
"""Maps the loss alone, and differentiates the mapped function as a whole."""


@functools.cache
def whole_gradient(num_devices):
    def loss_of(params, x, y):
        return jax.lax.pmean(mlp_loss(params, x, y), "devices")

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"))
    whole = jax.shard_map(loss_of, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(jax.value_and_grad(whole))


def shard_map_step(params, x, y, lr, num_devices):
    loss, grads = whole_gradient(num_devices)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


# %% right="via placed arrays"
"""Places rows by jax.make_array_from_process_local_data; sums shares of the loss."""

import functools

from jax.sharding import NamedSharding


@functools.cache
def observe(num_devices):
    mesh = Mesh(np.array(jax.devices()[:num_devices]), "d")

    @jax.jit
    @functools.partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P("d"), P("d"), P()),
        out_specs=P(),
    )
    def take(params, x, y, lr):
        def share(params):
            return jax.lax.psum(mlp_loss(params, x, y) / num_devices, "d")

        loss, grads = jax.value_and_grad(share)(params)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    return mesh, take


def shard_map_step(params, x, y, lr, num_devices):
    if len(y) % num_devices:
        raise ValueError(f"{num_devices} does not divide {len(y)}")
    mesh, take = observe(num_devices)
    rows = NamedSharding(mesh, P("d"))
    place = functools.partial(jax.make_array_from_process_local_data, rows)
    return take(params, place(x), place(y), lr)


# %% right="via set mesh"
"""Makes the mesh by jax.make_mesh, and finds it in the context."""

from jax.sharding import NamedSharding


def start(params, x, y, lr):
    expect = lambda p: jax.lax.pmean(mlp_loss(p, x, y), "rows")  # noqa: E731
    check, back = jax.vjp(expect, params)
    (grads,) = back(jnp.ones_like(check))
    return {name: params[name] - lr * grads[name] for name in grads}, check


@functools.cache
def program(mesh):
    specs = (P(), P("rows"), P("rows"), P())
    return jax.jit(jax.shard_map(start, in_specs=specs, out_specs=(P(), P())))


def shard_map_step(params, x, y, lr, num_devices):
    count = x.shape[0]
    if count % num_devices != 0:
        raise ValueError(f"cannot give {count} rows to {num_devices} devices")
    mesh = jax.make_mesh((num_devices,), ("rows",), devices=jax.devices()[:num_devices])
    with jax.set_mesh(mesh):
        split = NamedSharding(mesh, P("rows"))
        x, y = jax.device_put((x, y), split)
        params = jax.device_put(params, NamedSharding(mesh, P()))
        return program(mesh)(params, x, y, lr)


# %% right="via static argument"
"""One jit at the top level, to which the number of devices is static."""


def local_step(params, x, y, lr):
    def loss_of(params):
        return jax.lax.pmean(mlp_loss(params, x, y), "d")

    loss, grads = jax.value_and_grad(loss_of)(params)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


@functools.partial(jax.jit, static_argnums=4)
def shard_map_step(params, x, y, lr, num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("d",))
    specs = (P(), P("d"), P("d"), P())
    step = jax.shard_map(local_step, mesh=mesh, in_specs=specs, out_specs=P())
    return step(params, x, y, lr)


# %% right="via varying params"
"""Casts the parameters to varying: their gradient is local, and pmean averages it."""


@functools.cache
def compiled_step(num_devices):
    def vary(leaf):
        if hasattr(jax.lax, "pcast"):
            return jax.lax.pcast(leaf, "devices", to="varying")
        return jax.lax.pvary(leaf, "devices")  # JAX 0.7

    def step(params, x, y, lr):
        local = jax.tree.map(vary, params)
        loss, grads = jax.value_and_grad(mlp_loss)(local, x, y)
        loss, grads = jax.lax.pmean((loss, grads), "devices")
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:num_devices]), ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")
    return compiled_step(num_devices)(params, x, y, lr)


# %% wrong="labels become floats" fails="same numbers"
"""Makes floats of all targets."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        y = y.astype(jnp.float32)

        def loss_of(params):
            return jax.lax.pmean(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        return sgd(params, grads, lr), loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    return jax.jit(jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P()))


# %% right="via shares of the loss"
"""Differentiates its own share, and lets the transpose add up."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        share = lambda p: mlp_loss(p, x, y) / jax.lax.axis_size("devices")  # noqa: E731
        loss, grads = jax.value_and_grad(share)(params)
        return sgd(params, grads, lr), jax.lax.psum(loss, "devices")

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    return jax.jit(jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=(P(), P())))


# %% right="gradients of each row"
"""Differentiates the loss of each row, and takes the mean of the gradients."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        def one(x, y):
            return jax.value_and_grad(mlp_loss)(params, x[None], y[None])

        found = jax.tree.map(lambda g: g.mean(0), jax.vmap(one)(x, y))
        loss, grads = jax.lax.pmean(found, "devices")
        new = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return new, loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    return jax.jit(
        jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False)
    )


# %% right="via sum and count"
"""Adds up squared errors and rows, over all devices, and divides once."""


def total_loss(params, x, y):
    if jnp.issubdtype(y.dtype, jnp.integer):
        return row_losses(mlp_scores(params, x), y).sum()
    return ((mlp_scores(params, x)[:, 0] - y) ** 2).sum()


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        sums = jax.lax.psum(jax.value_and_grad(total_loss)(params, x, y), "devices")
        loss, grads = jax.tree.map(lambda s: s / (len(x) * num_devices), sums)
        return sgd(params, grads, lr), loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(
        step, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False
    )
    return jax.jit(mapped)


# %% wrong="averages in the loss, untracked" fails="same numbers; replicated result; one all-reduce"
# cause: only a loss is sent: with check_vma=False, its pmean averages no gradient
"""Differentiates the average loss with the tracking off: each device's own gradient."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        def loss_of(params):
            return jax.lax.pmean(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        return sgd(params, grads, lr), loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(
        step, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False
    )
    return jax.jit(mapped)


# %% wrong="gathers the batch" fails="own rows only; one all-reduce"
"""Gathers the rows of all devices, and goes through them on each, a shard at a time."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        def add(total, shard):
            found = jax.value_and_grad(mlp_loss)(params, *shard)
            return jax.tree.map(jnp.add, total, found), None

        zeros = jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)
        every = jax.lax.all_gather((x, y), "devices")
        total, _ = jax.lax.scan(add, zeros, every)
        mean = jax.tree.map(lambda leaf: leaf / num_devices, total)
        loss, grads = jax.lax.pmean(mean, "devices")
        return sgd(params, grads, lr), loss

    mesh, specs = Mesh(jax.devices()[:num_devices], ("devices",)), (P(), P("devices"))
    specs = {"in_specs": (*specs, P("devices"), P()), "out_specs": P()}
    return jax.jit(jax.shard_map(step, mesh=mesh, **specs, check_vma=False))
