# %% wrong="averages in the loss" fails="same numbers; replicas agree; one all-reduce"
# cause: only a loss is sent: in pmap, its pmean leaves each gradient as it was
"""Averages inside the loss: in pmap each device still gets a gradient of its own."""


def device_step(params, x, y, lr):
    def loss_of(params):
        return jax.lax.pmean(mlp_loss(params, x, y), "devices")

    loss, grads = jax.value_and_grad(loss_of)(params)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)


# %% wrong="averages the loss alone" fails="same numbers; replicas agree; one all-reduce"
# cause: only a loss is sent: in pmap, its pmean leaves each gradient as it was
"""Thinks that an averaged loss has averaged gradients: in pmap it has not."""


def device_step(params, x, y, lr):
    def mean_loss(params):
        return jax.lax.pmean(mlp_loss(params, x, y), "devices")

    loss, grads = jax.value_and_grad(mean_loss)(params)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)


# %% wrong="compiles in each call" fails="no recompilation"
# cause: each call makes a new function, which is compiled again: make one, and keep it
"""Defines the device's function inside: pmap meets a new one in each call."""


def train_step(params, x, y, lr):
    def device_step(params, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        loss, grads = jax.lax.pmean((loss, grads), "devices")
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    return jax.pmap(device_step, axis_name="devices")(params, x, y)


# %% wrong="divides by eight" fails="same numbers"
"""Adds up and divides by eight, however many devices there are."""


def device_step(params, x, y, lr):
    loss, grads = jax.lax.psum(jax.value_and_grad(mlp_loss)(params, x, y), "devices")
    return jax.tree.map(lambda p, g: p - lr * g / 8, params, grads), loss / 8


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)


# %% wrong="donates the parameters" fails="arguments stay"
"""Donates the old replicas: they are gone, though somebody may still want them."""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(
        device_step,
        axis_name="devices",
        in_axes=(0, 0, 0, None),
        donate_argnums=0,
    )
    return step(params, x, y, lr)


# %% wrong="donates y" fails="arguments stay"
"""Hands the targets on to be taken over."""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


_parallel = jax.pmap(device_step, "devices", in_axes=(0, 0, 0, None), donate_argnums=2)


def train_step(params, x, y, lr):
    return _parallel(params, x, y, lr)


# %% wrong="every device scans all shards" fails="own rows only; one all-reduce"
"""Lets each device go through all shards, one after the other: nothing is sent."""


def device_step(params, x, y, lr):
    def add(total, shard):
        found = jax.value_and_grad(mlp_loss)(params, *shard)
        return jax.tree.map(jnp.add, total, found), None

    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, zeros, (x, y))
    loss, grads = jax.tree.map(lambda leaf: leaf / len(x), total)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, None, None, None))
    return step(params, x, y, lr)


# %% wrong="every device takes all rows" fails="own rows only; one all-reduce"
"""Sends the whole batch to each device: nothing to combine, eight times the work."""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x.reshape(-1, 10), y.ravel())
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, None, None, None))
    return step(params, x, y, lr)


# %% wrong="every device takes all shards" fails="own rows only"
"""Lets each device go through all shards by vmap: eight times the work as well."""


def device_step(params, x, y, lr):
    def loss_of(params):
        return jax.vmap(mlp_loss, in_axes=(None, 0, 0))(params, x, y).mean()

    loss, grads = jax.value_and_grad(loss_of)(params)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, None, None, None))
    return step(params, x, y, lr)


# %% wrong="keeps the local loss" fails="loss before the step; replicas agree"
# cause: gradients are combined, losses are not
"""Returns each device's own loss."""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    grads = jax.lax.pmean(grads, "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)


# %% wrong="maps the learning rate" fails="same numbers"
# cause: pmap looked for a device axis in an argument that has none, or another one; in_axes=None replicates an argument
"""Forgets in_axes: pmap looks for a device axis in the learning rate."""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    return jax.pmap(device_step, axis_name="devices")(params, x, y, lr)


# %% wrong="no sync" fails="same numbers; loss before the step; replicas agree; one all-reduce"
# cause: no device sends anything
"""Leaves the sync out: right on one device, eight models on eight."""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)


# %% wrong="one device takes the whole batch" fails="own rows only; replicas agree; one all-reduce"
"""Computes the right step on one device and copies it: the others are idle."""


@jax.jit
def device_step(params, x, y, lr):
    params = jax.tree.map(lambda leaf: leaf[0], params)
    found = jax.value_and_grad(mlp_loss)(params, x.reshape(-1, 10), y.ravel())
    params = jax.tree.map(lambda p, g: p - lr * g, params, found[1])
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * len(x)), (params, found[0]))


def train_step(params, x, y, lr):
    return device_step(params, x, y, lr)


# %% wrong="remembers the learning rate" fails="same numbers"
"""Builds the step once, around the first learning rate that comes."""

made = []


def train_step(params, x, y, lr):
    def device_step(params, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        loss, grads = jax.lax.pmean((loss, grads), "devices")
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    if not made:
        made.append(jax.pmap(device_step, axis_name="devices"))
    return made[0](params, x, y)


# %% wrong="safe gradients" fails="same numbers"
"""Cuts gradients to 100 after the sync: right for small labels alone."""


def device_step(params, x, y, lr):
    loss, grads = jax.lax.pmean(jax.value_and_grad(mlp_loss)(params, x, y), "devices")
    grads = jax.tree.map(lambda g: jnp.clip(g, -100, 100), grads)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


_parallel = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))


def train_step(params, x, y, lr):
    return _parallel(params, x, y, lr)


# %% wrong="sends the counts" fails="one all-reduce"
"""Adds up the devices' numbers of rows, which are known: a number more to send."""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    rows = jnp.sum(jnp.ones_like(y))
    total = jax.lax.psum(rows, "devices")
    share = jax.tree.map(lambda leaf: leaf * (rows / total), (loss, grads))
    loss, grads = jax.lax.psum(share, "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)


# %% wrong="skips bad steps outside" fails="one all-reduce"
"""Keeps the old parameters after a loss of nan: one more all-reduce, outside."""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


pmapped_step = jax.pmap(device_step, "devices", in_axes=(0, 0, 0, None))


@jax.jit
def keep_if(loss, new, old):
    fine = jnp.isfinite(loss).all()
    return jax.tree.map(lambda a, b: jnp.where(fine, a, b), new, old)


def train_step(params, x, y, lr):
    new, loss = pmapped_step(params, x, y, lr)
    return keep_if(loss, new, params), loss


# %% wrong="static learning rate" fails="no recompilation"
# cause: lr is a constant of the program: pass it as an argument that is not static
"""Makes the learning rate a part of the program: each value compiles another one."""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", static_broadcasted_argnums=3)
    return step(params, x, y, lr)


# %% wrong="steps before the loss" fails="loss before the step"
# cause: that is the loss after the step
"""Returns the loss after the step."""


def device_step(params, x, y, lr):
    grads = jax.lax.pmean(jax.grad(mlp_loss)(params, x, y), "devices")
    params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
    return params, jax.lax.pmean(mlp_loss(params, x, y), "devices")


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)


# %% wrong="sums gradients and losses" fails="same numbers; loss before the step"
# cause: gradients and loss were added up, not averaged
"""Adds up instead of averaging, the losses as well."""


def device_step(params, x, y, lr):
    loss, grads = jax.lax.psum(jax.value_and_grad(mlp_loss)(params, x, y), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)


# %% wrong="sums the gradients" fails="same numbers"
# cause: the gradients were added up: 8 times too large
"""Adds the gradients up: the learning rate grows with the number of devices."""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    grads, loss = jax.lax.psum(grads, "devices"), jax.lax.pmean(loss, "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)


# %% wrong="syncs twice" fails="one all-reduce"
"""Averages gradients and parameters, to be safe: twice the bytes for nothing."""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
    return jax.lax.pmean(params, "devices"), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)


# %% wrong="takes the last devices" fails="replicas agree"
"""Counts devices from the end."""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    devices = jax.devices()[-len(x) :]
    step = jax.pmap(
        device_step, axis_name="devices", in_axes=(0, 0, 0, None), devices=devices
    )
    return step(params, x, y, lr)


# %% wrong="unstacks before the step" fails="one all-reduce"
"""Takes one replica out of the stack before the step: devices send it."""


def device_step(params, x, y, lr):
    loss, grads = jax.lax.pmean(jax.value_and_grad(mlp_loss)(params, x, y), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


sgd_step = jax.pmap(device_step, axis_name="devices", in_axes=(None, 0, 0, None))


def train_step(params, x, y, lr):
    # Replicas are equal: one goes in whole, one copy per device comes out.
    return sgd_step(jax.tree.map(lambda leaf: leaf[0], params), x, y, lr)


# %% wrong="writes the update by name" fails="same numbers"
"""Spells the parameters out and forgets the bias that starts at zero."""


def device_step(params, x, y, lr):
    def loss_of(w1, b1, w2):
        hidden = jnp.tanh(x @ w1 + b1)
        return jnp.mean(((hidden @ w2)[:, 0] - y) ** 2)

    found = jax.value_and_grad(loss_of, argnums=(0, 1, 2))
    loss, grads = found(params["w1"], params["b1"], params["w2"])
    loss, (w1, b1, w2) = jax.lax.pmean((loss, grads), "devices")
    new = {"w1": w1, "b1": b1, "w2": w2}
    new = {name: params[name] - lr * grad for name, grad in new.items()}
    return new | {"b2": params["b2"]}, loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)


# %% wrong="works on one device under the name shard_map" fails="own rows only"
"""Steps on one device, shard by shard; a map then averages what is the same already."""


@jax.jit
def shard_map_x(params, x, y, lr):
    one = jax.tree.map(lambda leaf: leaf[0], params)
    step = jax.value_and_grad(mlp_loss)
    losses, grads = jax.lax.map(lambda rows: step(one, *rows), (x, y))
    new = jax.tree.map(lambda p, g: p - lr * g.mean(0), one, grads)
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * len(x)), (new, losses.mean()))


average = jax.pmap(lambda tree: jax.lax.pmean(tree, "devices"), "devices")


def train_step(params, x, y, lr):
    return average(shard_map_x(params, x, y, lr))


# %% right="averages the parameters"
"""Averages the updated parameters: for plain SGD from equal replicas the same."""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
    return jax.lax.pmean(params, "devices"), jax.lax.pmean(loss, "devices")


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)


# %% right="one vector"
"""Sends gradients and loss as one vector."""

from jax.flatten_util import ravel_pytree


def device_step(params, x, y, lr):
    vector, restore = ravel_pytree(jax.value_and_grad(mlp_loss)(params, x, y))
    loss, grads = restore(
        jax.lax.psum(vector, "devices") / jax.lax.axis_size("devices")
    )
    return {name: params[name] - lr * grads[name] for name in params}, loss


def start(params, x, y, lr):
    return device_step(params, x, y, lr)


train_on_all = jax.pmap(start, "devices", in_axes=(0, 0, 0, None), out_axes=0)


def train_step(params, x, y, lr):
    return train_on_all(params, x, y, lr)


# %% right="casts to float32"
"""Casts the parameters to float32 first, which they are."""


def device_step(params, x, y, lr):
    params = jax.tree.map(lambda p: p.astype(jnp.float32), params)
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)


# %% right="via a class"
"""Keeps the mapped function in an object that is made once; NumPy arrays go in."""

import functools


class Trainer:
    axis = "workers"

    def __init__(self):
        share = functools.partial(jax.pmap, axis_name=self.axis)
        self.start = share(self.on_one, in_axes=(0, 0, 0, None))

    def on_one(self, params, x, y, lr):
        def loss_of(leaves):
            return mlp_loss(jax.tree.unflatten(kind, leaves), x, y)

        leaves, kind = jax.tree.flatten(params)
        loss, grads = jax.value_and_grad(loss_of)(leaves)
        workers = jax.lax.axis_size(self.axis)
        new = []
        for leaf, grad in zip(leaves, grads, strict=True):
            new.append(leaf - lr * (jax.lax.psum(grad, self.axis) / workers))
        return jax.tree.unflatten(kind, new), jax.lax.psum(loss / workers, self.axis)


trainer = Trainer()
device_step = trainer.on_one


def train_step(params, x, y, lr):
    return trainer.start(params, x, y, lr)


# %% right="via grad of all losses"
"""Decorates once; the loss stays whole and the update takes the average."""

import functools


@functools.partial(jax.pmap, axis_name="everyone", in_axes=(0, 0, 0, None))
def train_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    mean = functools.partial(jax.lax.pmean, axis_name="everyone")
    return jax.tree.map(lambda p, g: p - lr * mean(g), params, grads), mean(loss)


device_step = train_step


# %% right="via one flat vector"
"""Sends one flat vector of loss and gradients, in one all-reduce."""

from jax.flatten_util import ravel_pytree


def device_step(params, x, y, lr):
    flat, start = ravel_pytree(jax.value_and_grad(mlp_loss)(params, x, y))
    loss, check = start(jax.lax.pmean(flat, axis_name="batch"))
    expect = {name: params[name] - lr * check[name] for name in params}
    return expect, loss


observe_step = jax.pmap(device_step, "batch", in_axes=(0, 0, 0, None), out_axes=0)


def train_step(params, x, y, lr):
    return observe_step(params, x, y, lr)


# %% right="via set mesh"
"""Maps by shard_map over the mesh of the context, of jax.make_mesh's own axis type."""

P = jax.sharding.PartitionSpec


def device_step(params, x, y, lr):
    one = jax.tree.map(lambda leaf: leaf[0], params)
    value, back = jax.vjp(lambda p: mlp_loss(p, x[0], y[0]), one)
    (grads,) = back(jnp.ones_like(value))
    loss, grads = jax.lax.pmean((value, grads), "d")
    new = {name: (one[name] - grads[name] * lr)[None] for name in one}
    return new, loss[None]


@jax.jit
def everywhere(params, x, y, lr):
    specs = (P("d"), P("d"), P("d"), P())
    step = jax.shard_map(device_step, in_specs=specs, out_specs=P("d"))
    return step(params, x, y, lr)


def train_step(params, x, y, lr):
    count = y.shape[0]
    mesh = jax.make_mesh((count,), ("d",), devices=jax.devices()[:count])
    with jax.set_mesh(mesh):
        place = jax.sharding.NamedSharding(mesh, P("d"))
        return everywhere(*jax.device_put((params, x, y), place), lr)


# %% right="via shard map"
"""Maps by jit and shard_map, whose blocks keep an axis of length one."""

import functools

from jax.sharding import PartitionSpec as P


def device_step(params, x, y, lr):
    params, x, y = jax.tree.map(lambda block: block[0], (params, x, y))
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    total = jax.lax.psum((loss, grads), "devices")
    loss, grads = jax.tree.map(lambda t: t / jax.lax.psum(1, "devices"), total)
    params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
    return jax.tree.map(lambda leaf: leaf[None], (params, loss))


@functools.cache
def mapped(num_devices):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:num_devices]), ("devices",))
    split, specs = P("devices"), (P("devices"), P("devices"), P("devices"), P())
    return jax.jit(
        jax.shard_map(
            device_step, mesh=mesh, in_specs=specs, out_specs=split, check_vma=False
        )
    )


def train_step(params, x, y, lr):
    return mapped(len(x))(params, x, y, lr)


# %% wrong="labels become floats" fails="same numbers"
"""Makes floats of all targets."""


def device_step(params, x, y, lr):
    x, y = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)


# %% right="a learning rate for each device"
"""Hands each device its own copy of lr."""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    grads = jax.lax.pmean(grads, axis_name="devices")
    loss = jax.lax.pmean(loss, axis_name="devices")
    new_params = jax.tree_util.tree_map(lambda p, g: p - lr * g, params, grads)
    return new_params, loss


mapped_step = jax.pmap(device_step, axis_name="devices")


def train_step(params, x, y, lr):
    return mapped_step(params, x, y, jnp.full(len(x), lr, jnp.float32))


# %% right="gradients of each row"
"""Differentiates the loss of each row, and takes the mean of the gradients."""


def device_step(params, x, y, lr):
    def one(x, y):
        return jax.value_and_grad(mlp_loss)(params, x[None], y[None])

    loss, grads = jax.tree.map(lambda g: g.mean(0), jax.vmap(one)(x, y))
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)


# %% wrong="gathers the batch" fails="own rows only; one all-reduce"
"""Gathers the rows of all devices on each, which then computes all of them."""


def device_step(params, x, y, lr):
    x, y = jax.lax.all_gather((x, y), "devices")

    def loss_of(params):
        return jax.vmap(mlp_loss, (None, 0, 0))(params, x, y).mean()

    loss, grads = jax.value_and_grad(loss_of)(params)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)


# %% wrong="hands out all shards one by one" fails="own rows only"
"""Splits the rows, and gives every device each of the shards again, in an array of its own."""


def device_step(params, lr, *shards):
    size = len(shards) // 2
    pairs = zip(shards[:size], shards[size:], strict=True)
    found = [jax.value_and_grad(mlp_loss)(params, *pair) for pair in pairs]
    mean = jax.tree.map(lambda *leaves: sum(leaves) / size, *found)
    loss, grads = jax.lax.pmean(mean, "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


@functools.cache
def mapped(size):
    in_axes = 0, *[None] * (2 * size + 1)
    return jax.pmap(device_step, axis_name="devices", in_axes=in_axes)


def train_step(params, x, y, lr):
    mesh = Mesh(jax.devices()[: len(x)], ("devices",))
    rows = jax.device_put((x, y), jax.sharding.NamedSharding(mesh, P("devices")))
    shards = [1 * a[d] for a in rows for d in range(len(x))]
    return mapped(len(x))(params, lr, *shards)
