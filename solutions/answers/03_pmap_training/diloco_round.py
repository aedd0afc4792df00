# %% wrong="averages every step" fails="same numbers; one all-reduce; loss of all steps"
# cause: the devices agree in every local step
"""Averages the gradients in each local step: lockstep, and H times the bytes."""


def device_round(params, velocity, x, y, lr):
    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(varying(own), *batch)
        loss, grads = jax.lax.pmean((loss, grads), "devices")
        return sgd(own, grads, lr), loss

    before = params
    own, losses = jax.lax.scan(local_step, before, (x, y))
    found = losses.mean(), jax.tree.map(jnp.subtract, before, own)
    loss, g = jax.lax.pmean(found, "devices")
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    ahead = jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g)
    return sgd(params, ahead, 0.7), velocity, loss


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% wrong="leaves the parameters replicated" fails="same numbers; one all-reduce; loss of all steps"
# cause: the devices agree in every local step
"""Lets JAX sum the gradients in each local step, and divides."""


def device_round(params, velocity, x, y, lr):
    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        grads = jax.tree.map(lambda g: g / jax.lax.axis_size("devices"), grads)
        return sgd(own, grads, lr), jax.lax.pmean(loss, "devices")

    before = params
    own, losses = jax.lax.scan(local_step, before, (x, y))
    found = losses.mean(), jax.tree.map(jnp.subtract, before, own)
    loss, g = jax.lax.pmean(found, "devices")
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    ahead = jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g)
    return sgd(params, ahead, 0.7), velocity, loss


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% wrong="outer step on its own change" fails="same numbers; one all-reduce"
# cause: this is the outer step of device 0 alone
"""Takes the outer step with each device's own change: device 0's is returned."""


def device_round(params, velocity, x, y, lr):
    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        return sgd(own, grads, lr), loss

    before = varying(params)
    own, losses = jax.lax.scan(local_step, before, (x, y))
    found = losses.mean(), jax.tree.map(jnp.subtract, before, own)
    loss, g = jax.lax.pmean(found[0], "devices"), found[1]
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    ahead = jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g)
    return sgd(params, ahead, 0.7), velocity, loss


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs, check_vma=False)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% wrong="averages after the outer step" fails="one all-reduce"
"""Averages parameters and velocity after an outer step of each device: twice the bytes."""


def device_round(params, velocity, x, y, lr):
    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        return sgd(own, grads, lr), loss

    before = varying(params)
    own, losses = jax.lax.scan(local_step, before, (x, y))
    found = losses.mean(), jax.tree.map(jnp.subtract, before, own)
    loss, g = found
    velocity = varying(velocity)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    ahead = jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g)
    return jax.lax.pmean((sgd(before, ahead, 0.7), velocity, loss), "devices")


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% wrong="forgets the momentum" fails="same numbers"
# cause: the old velocity is forgotten
"""Begins each round with no velocity."""


def device_round(params, velocity, x, y, lr):
    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        return sgd(own, grads, lr), loss

    before = varying(params)
    own, losses = jax.lax.scan(local_step, before, (x, y))
    found = losses.mean(), jax.tree.map(jnp.subtract, before, own)
    loss, g = jax.lax.pmean(found, "devices")
    velocity = jax.tree.map(lambda v, g: 0 * v + g, velocity, g)
    ahead = jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g)
    return sgd(params, ahead, 0.7), velocity, loss


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% wrong="plain outer step" fails="same numbers"
# cause: the momentum is left out
"""Subtracts the outer gradient, as in local SGD, and leaves the velocity as it was."""


def device_round(params, velocity, x, y, lr):
    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        return sgd(own, grads, lr), loss

    before = varying(params)
    own, losses = jax.lax.scan(local_step, before, (x, y))
    found = losses.mean(), jax.tree.map(jnp.subtract, before, own)
    loss, g = jax.lax.pmean(found, "devices")
    return sgd(params, g, 0.7), velocity, loss


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% wrong="steps with the old velocity" fails="same numbers"
# cause: the parameters take a step with the old velocity
"""Takes the step before it updates the velocity."""


def device_round(params, velocity, x, y, lr):
    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        return sgd(own, grads, lr), loss

    before = varying(params)
    own, losses = jax.lax.scan(local_step, before, (x, y))
    found = losses.mean(), jax.tree.map(jnp.subtract, before, own)
    loss, g = jax.lax.pmean(found, "devices")
    ahead = jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    return sgd(params, ahead, 0.7), velocity, loss


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% wrong="adds the changes up" fails="same numbers"
# cause: the outer gradients are added up, not averaged
"""Adds up what the devices have done."""


def device_round(params, velocity, x, y, lr):
    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        return sgd(own, grads, lr), loss

    before = varying(params)
    own, losses = jax.lax.scan(local_step, before, (x, y))
    found = losses.mean(), jax.tree.map(jnp.subtract, before, own)
    loss, g = jax.lax.pmean(found[0], "devices"), jax.lax.psum(found[1], "devices")
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    ahead = jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g)
    return sgd(params, ahead, 0.7), velocity, loss


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% wrong="goes back" fails="same numbers"
# cause: the outer gradient has the wrong sign
"""Subtracts in the wrong order, and goes back by what was learned."""


def device_round(params, velocity, x, y, lr):
    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        return sgd(own, grads, lr), loss

    before = varying(params)
    own, losses = jax.lax.scan(local_step, before, (x, y))
    found = losses.mean(), jax.tree.map(jnp.subtract, own, before)
    loss, g = jax.lax.pmean(found, "devices")
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    ahead = jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g)
    return sgd(params, ahead, 0.7), velocity, loss


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% wrong="sends the velocity" fails="one all-reduce"
"""Averages the velocity as well, which is equal already."""


def device_round(params, velocity, x, y, lr):
    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        return sgd(own, grads, lr), loss

    before = varying(params)
    own, losses = jax.lax.scan(local_step, before, (x, y))
    found = losses.mean(), jax.tree.map(jnp.subtract, before, own)
    loss, g = jax.lax.pmean(found, "devices")
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    ahead = jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g)
    velocity = jax.lax.pmean(varying(velocity), "devices")
    return sgd(params, ahead, 0.7), velocity, loss


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% wrong="loss of the last step" fails="loss of all steps"
"""Reports the loss of the last local step."""


def device_round(params, velocity, x, y, lr):
    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        return sgd(own, grads, lr), loss

    before = varying(params)
    own, losses = jax.lax.scan(local_step, before, (x, y))
    found = losses[-1], jax.tree.map(jnp.subtract, before, own)
    loss, g = jax.lax.pmean(found, "devices")
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    ahead = jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g)
    return sgd(params, ahead, 0.7), velocity, loss


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% wrong="donates the parameters" fails="arguments stay"
"""Gives the memory of parameters and velocity to the result."""


def device_round(params, velocity, x, y, lr):
    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        return sgd(own, grads, lr), loss

    before = varying(params)
    own, losses = jax.lax.scan(local_step, before, (x, y))
    found = losses.mean(), jax.tree.map(jnp.subtract, before, own)
    loss, g = jax.lax.pmean(found, "devices")
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    ahead = jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g)
    return sgd(params, ahead, 0.7), velocity, loss


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs)
    return jax.jit(mapped, donate_argnums=(0, 1))


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% wrong="compiles for each learning rate" fails="no recompilation"
"""Keeps a program for each learning rate."""


def device_round(params, velocity, x, y, lr):
    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        return sgd(own, grads, lr), loss

    before = varying(params)
    own, losses = jax.lax.scan(local_step, before, (x, y))
    found = losses.mean(), jax.tree.map(jnp.subtract, before, own)
    loss, g = jax.lax.pmean(found, "devices")
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    ahead = jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g)
    return sgd(params, ahead, 0.7), velocity, loss


@functools.cache
def compiled_round(num_devices, lr):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    run = functools.partial(device_round, lr=lr)
    specs = {"in_specs": (P(), P(), rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(run, mesh=mesh, **specs))


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices, float(lr))(params, velocity, x, y)


# %% wrong="every device works for all" fails="own rows only"
"""Gives every device all rows, of which it plays all devices in turn."""


def device_round(params, velocity, x, y, lr):
    size = jax.lax.axis_size("devices")

    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        return sgd(own, grads, lr), loss

    ends, losses = [], []
    for d in range(size):
        k = x.shape[1] // size
        rows = x[:, d * k : (d + 1) * k], y[:, d * k : (d + 1) * k]
        own, loss = jax.lax.scan(local_step, params, rows)
        ends.append(own)
        losses.append(loss.mean())
    end = jax.tree.map(lambda *leaves: sum(leaves) / size, *ends)
    g = jax.tree.map(jnp.subtract, params, end)
    loss, g = jax.lax.pmean((sum(losses) / size, g), "devices")
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    ahead = jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g)
    return sgd(params, ahead, 0.7), velocity, loss


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P()
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs, check_vma=False)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% right="python loop"
"""Loops over the local steps in Python."""


def device_round(params, velocity, x, y, lr):
    own, losses = varying(params), []
    for batch in zip(x, y, strict=True):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        own = sgd(own, grads, lr)
        losses.append(loss)
    change = {name: params[name] - own[name] for name in params}
    loss, g = jax.lax.pmean((sum(losses) / len(x), change), "devices")
    velocity = {name: 0.9 * velocity[name] + g[name] for name in g}
    new = {n: params[n] - 0.7 * (g[n] + 0.9 * velocity[n]) for n in g}
    return new, velocity, loss


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% right="fori loop"
"""Counts the steps, and adds the losses up as it goes."""


def device_round(params, velocity, x, y, lr):
    def step(h, carry):
        own, total = carry
        loss, grads = jax.value_and_grad(mlp_loss)(own, x[h], y[h])
        return sgd(own, grads, lr), total + loss / len(x)

    begin = varying((params, jnp.zeros(())))
    own, loss = jax.lax.fori_loop(0, len(x), step, begin)
    mean, loss = jax.lax.pmean((own, loss), "devices")
    g = jax.tree.map(jnp.subtract, params, mean)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    return (
        sgd(params, jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g), 0.7),
        velocity,
        loss,
    )


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% right="via check vma false"
"""Turns the tracking off: no cast is needed."""


def device_round(params, velocity, x, y, lr):
    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        return sgd(own, grads, lr), loss

    before = params
    own, losses = jax.lax.scan(local_step, before, (x, y))
    found = losses.mean(), jax.tree.map(jnp.subtract, before, own)
    loss, g = jax.lax.pmean(found, "devices")
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    ahead = jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g)
    return sgd(params, ahead, 0.7), velocity, loss


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs, check_vma=False)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% right="via psum"
"""Adds up and divides by the number of devices."""


def device_round(params, velocity, x, y, lr):
    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        return sgd(own, grads, lr), loss

    before = varying(params)
    own, losses = jax.lax.scan(local_step, before, (x, y))
    found = losses.mean(), jax.tree.map(jnp.subtract, before, own)
    total, size = jax.lax.psum(found, "devices"), jax.lax.axis_size("devices")
    loss, g = jax.tree.map(lambda leaf: leaf / size, total)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    ahead = jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g)
    return sgd(params, ahead, 0.7), velocity, loss


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% right="via Optax"
"""Leaves the outer step to Optax's SGD with Nesterov momentum."""

import optax


def device_round(params, velocity, x, y, lr):
    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        return sgd(own, grads, lr), loss

    before = varying(params)
    own, losses = jax.lax.scan(local_step, before, (x, y))
    found = losses.mean(), jax.tree.map(jnp.subtract, before, own)
    loss, g = jax.lax.pmean(found, "devices")
    outer = optax.trace(0.9, nesterov=True)
    updates, state = outer.update(g, optax.TraceState(velocity))
    return sgd(params, updates, 0.7), state.trace, loss


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% right="adds the updates up"
"""Keeps the sum of the local updates in place of a difference."""


def device_round(params, velocity, x, y, lr):
    def local_step(done, batch):
        own = jax.tree.map(lambda p, d: p - d, before, done)
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        return jax.tree.map(lambda d, g: d + lr * g, done, grads), loss

    before = varying(params)
    nothing = varying(jax.tree.map(jnp.zeros_like, params))
    done, losses = jax.lax.scan(local_step, nothing, (x, y))
    loss, g = jax.lax.pmean((jnp.mean(losses), done), "devices")
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    ahead = jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g)
    return sgd(params, ahead, 0.7), velocity, loss


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% right="one flat vector"
"""Sends loss and change as one vector."""


import jax.flatten_util


def device_round(params, velocity, x, y, lr):
    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        return sgd(own, grads, lr), loss

    before = varying(params)
    own, losses = jax.lax.scan(local_step, before, (x, y))
    found = losses.mean(), jax.tree.map(jnp.subtract, before, own)
    flat, back = jax.flatten_util.ravel_pytree(found)
    loss, g = back(jax.lax.pmean(flat, "devices"))
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    ahead = jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g)
    return sgd(params, ahead, 0.7), velocity, loss


@functools.cache
def compiled_round(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_round, mesh=mesh, **specs)
    return jax.jit(mapped)


def diloco_round(params, velocity, x, y, lr, num_devices):
    return compiled_round(num_devices)(params, velocity, x, y, lr)


# %% wrong="hands out all rows in pieces" fails="own rows only"
"""Splits the rows, and gives every device each device's part again: it plays all of them."""


def device_round(params, velocity, lr, *parts):
    def local_step(own, batch):
        loss, grads = jax.value_and_grad(mlp_loss)(own, *batch)
        return sgd(own, grads, lr), loss

    size, ends = len(parts) // 2, []
    for pair in zip(parts[:size], parts[size:], strict=True):
        own, losses = jax.lax.scan(local_step, params, pair)
        ends.append((losses.mean(), jax.tree.map(jnp.subtract, params, own)))
    mean = jax.tree.map(lambda *leaves: sum(leaves) / size, *ends)
    loss, g = jax.lax.pmean(mean, "devices")
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    ahead = jax.tree.map(lambda v, g: g + 0.9 * v, velocity, g)
    return sgd(params, ahead, 0.7), velocity, loss


@functools.cache
def compiled_round(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = {"in_specs": P(), "out_specs": P(), "check_vma": False}
    return jax.jit(jax.shard_map(device_round, mesh=mesh, **specs))


def diloco_round(params, velocity, x, y, lr, num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    rows = jax.sharding.NamedSharding(mesh, P(None, "devices"))
    parts = [
        1 * part
        for a in jax.device_put((x, y), rows)
        for part in jnp.split(a, num_devices, axis=1)
    ]
    return compiled_round(num_devices)(params, velocity, lr, *parts)
