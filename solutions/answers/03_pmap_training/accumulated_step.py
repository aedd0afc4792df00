# %% wrong="counts the first microbatch twice" fails="same numbers; loss before the step"
"""Starts from the first microbatch's gradient, and adds it once more."""


def accumulate(params, x, y, lr):
    own = varying(params)

    def add(total, batch):
        found = jax.value_and_grad(mlp_loss)(own, *batch)
        return jax.tree.map(jnp.add, total, found), None

    first = jax.value_and_grad(mlp_loss)(own, x[0], y[0])
    total, _ = jax.lax.scan(add, first, (x, y))
    mean = jax.tree.map(lambda leaf: leaf / (len(x) + 1), total)
    loss, grads = jax.lax.pmean(mean, "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="differentiates outside" fails="one microbatch at a time"
"""Differentiates the mean of all losses: all hidden layers are alive at once."""


def accumulate(params, x, y, lr):
    own = varying(params)

    def mean_loss(params):
        total = 0.0
        for microbatch in range(len(x)):
            total += mlp_loss(params, x[microbatch], y[microbatch])
        return total / len(x)

    found = jax.value_and_grad(mean_loss)(own)
    loss, grads = jax.lax.pmean(found, "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="divides by four and eight" fails="same numbers; loss before the step"
"""Divides by the microbatches and devices of one example."""


def accumulate(params, x, y, lr):
    own = varying(params)

    def add(total, batch):
        found = jax.value_and_grad(mlp_loss)(own, *batch)
        return jax.tree.map(jnp.add, total, found), None

    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, varying(zeros), (x, y))
    loss, grads = jax.lax.psum(total, "devices")
    return jax.tree.map(lambda p, g: p - lr * g / 4 / 8, params, grads), loss / 4 / 8


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="divides the loss alone" fails="same numbers"
# cause: the gradients of the microbatches were added up, not averaged
"""Averages the losses and forgets that the gradients were added up, too."""


def accumulate(params, x, y, lr):
    own = varying(params)

    def add(total, batch):
        found = jax.value_and_grad(mlp_loss)(own, *batch)
        return jax.tree.map(jnp.add, total, found), None

    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, varying(zeros), (x, y))
    loss, grads = jax.lax.pmean(total, "devices")
    return sgd(params, grads, lr), loss / len(x)


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="flattens the microbatches" fails="one microbatch at a time"
"""Makes one large batch of the small ones: the memory is gone again."""


def accumulate(params, x, y, lr):
    own = varying(params)

    found = jax.value_and_grad(mlp_loss)(own, x.reshape(-1, 10), y.ravel())
    loss, grads = jax.lax.pmean(found, "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="forgets to divide" fails="same numbers; loss before the step"
# cause: gradients and losses of the microbatches were added up
"""Adds the microbatches' gradients up and never divides."""


def accumulate(params, x, y, lr):
    own = varying(params)

    def add(total, batch):
        found = jax.value_and_grad(mlp_loss)(own, *batch)
        return jax.tree.map(jnp.add, total, found), None

    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, varying(zeros), (x, y))
    loss, grads = jax.lax.pmean(total, "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="keeps the activations" fails="one microbatch at a time"
"""Differentiates the scan, which keeps what each round has computed."""


def accumulate(params, x, y, lr):
    own = varying(params)

    def loss_of(params):
        def add(total, piece):
            return total + mlp_loss(params, *piece), None

        return jax.lax.scan(add, varying(jnp.zeros(())), (x, y))[0] / len(x)

    loss, grads = jax.lax.pmean(jax.value_and_grad(loss_of)(own), "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="keeps the last microbatch" fails="same numbers; loss before the step"
"""Lets each round replace the gradients instead of adding to them."""


def accumulate(params, x, y, lr):
    own = varying(params)

    def replace(_, batch):
        return jax.value_and_grad(mlp_loss)(own, *batch), None

    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    last, _ = jax.lax.scan(replace, varying(zeros), (x, y))
    loss, grads = jax.lax.pmean(last, "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="knows the hidden width" fails="same numbers"
"""Starts from zeros of the shapes that the example has."""


def accumulate(params, x, y, lr):
    own = varying(params)

    def add(total, batch):
        found = jax.value_and_grad(mlp_loss)(own, *batch)
        return jax.tree.map(jnp.add, total, found), None

    zeros = {"w1": jnp.zeros((10, 32)), "b1": jnp.zeros(32)}
    zeros |= {"w2": jnp.zeros((32, 1)), "b2": jnp.zeros(1)}
    total, _ = jax.lax.scan(add, varying((jnp.zeros(()), zeros)), (x, y))
    mean = jax.tree.map(lambda leaf: leaf / len(x), total)
    loss, grads = jax.lax.pmean(mean, "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="never syncs" fails="same numbers; one all-reduce; loss before the step"
"""Accumulates over the microbatches and forgets the devices: right on one device."""


def accumulate(params, x, y, lr):
    def add(total, batch):
        found = jax.value_and_grad(mlp_loss)(params, *batch)
        return jax.tree.map(jnp.add, total, found), None

    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, zeros, (x, y))
    loss, grads = jax.tree.map(lambda leaf: leaf / len(x), total)
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(
        accumulate, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False
    )
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="sends the number of pieces" fails="one all-reduce"
"""Adds up the devices' numbers of microbatches, which are known: a number more to send."""


def accumulate(params, x, y, lr):
    own = varying(params)

    def add(total, batch):
        found = jax.value_and_grad(mlp_loss)(own, *batch)
        return jax.tree.map(jnp.add, total, found), None

    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, varying(zeros), (x, y))
    count = jax.lax.psum(jnp.ones(len(x)).sum(), "devices")
    loss, grads = jax.lax.psum(total, "devices")
    return jax.tree.map(lambda p, g: p - lr * g / count, params, grads), loss / count


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="sums over the devices" fails="same numbers; loss before the step"
# cause: gradients and losses of the devices were added up
"""Averages over the microbatches, and adds up over the devices."""


def accumulate(params, x, y, lr):
    own = varying(params)

    def add(total, batch):
        found = jax.value_and_grad(mlp_loss)(own, *batch)
        return jax.tree.map(jnp.add, total, found), None

    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, varying(zeros), (x, y))
    mean = jax.tree.map(lambda leaf: leaf / len(x), total)
    loss, grads = jax.lax.psum(mean, "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="syncs in the loop" fails="one all-reduce"
# cause: each round sends: by a collective in the loop, or since the parameters do not vary, so that JAX sums each gradient
"""Averages over the devices in each round: right numbers, M times the bytes."""


def accumulate(params, x, y, lr):
    own = varying(params)

    def add(total, batch):
        found = jax.value_and_grad(mlp_loss)(own, *batch)
        return jax.tree.map(jnp.add, total, jax.lax.pmean(found, "devices")), None

    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, zeros, (x, y))
    loss, grads = jax.tree.map(lambda leaf: leaf / len(x), total)
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="takes a step each" fails="same numbers; one all-reduce; loss before the step"
# cause: each microbatch took a step of its own
"""Updates after each microbatch: M small steps in place of one."""


def accumulate(params, x, y, lr):
    def step(params, batch):
        found = jax.value_and_grad(mlp_loss)(varying(params), *batch)
        loss, grads = jax.lax.pmean(found, "devices")
        return sgd(params, grads, lr), loss

    params, losses = jax.lax.scan(step, params, (x, y))
    return params, losses.mean()


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="three microbatches at a time" fails="one microbatch at a time"
"""Lets lax.map take three microbatches side by side."""


def accumulate(params, x, y, lr):
    own = varying(params)

    found = jax.value_and_grad(mlp_loss)
    each = jax.lax.map(lambda piece: found(own, *piece), (x, y), batch_size=3)
    mean = jax.tree.map(lambda leaf: leaf.mean(0), each)
    loss, grads = jax.lax.pmean(mean, "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="two microbatches at a time" fails="one microbatch at a time"
"""Halves the number of rounds, and doubles the memory of each."""


def accumulate(params, x, y, lr):
    own = varying(params)

    def add(total, batch):
        found = jax.value_and_grad(mlp_loss)(own, *batch)
        return jax.tree.map(jnp.add, total, found), None

    size = 2 if len(x) % 2 == 0 else 1
    x = x.reshape(len(x) // size, -1, 10)
    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, varying(zeros), (x, y.reshape(len(x), -1)))
    mean = jax.tree.map(lambda leaf: leaf / len(x), total)
    loss, grads = jax.lax.pmean(mean, "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="vmaps the microbatches" fails="one microbatch at a time"
"""Takes all microbatches side by side, which needs the memory of all."""


def accumulate(params, x, y, lr):
    own = varying(params)

    each = jax.vmap(jax.value_and_grad(mlp_loss), in_axes=(None, 0, 0))(own, x, y)
    mean = jax.tree.map(lambda leaf: leaf.mean(0), each)
    loss, grads = jax.lax.pmean(mean, "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="leaves the parameters replicated" fails="one all-reduce"
# cause: each round sends: by a collective in the loop, or since the parameters do not vary, so that JAX sums each gradient
"""Averages the loss that it differentiates, as in 3.2: each round sends a gradient."""


def accumulate(params, x, y, lr):
    def add(total, batch):
        def loss_of(params):
            return jax.lax.pmean(mlp_loss(varying(params), *batch), "devices")

        found = jax.value_and_grad(loss_of)(params)
        return jax.tree.map(jnp.add, total, found), None

    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, zeros, (x, y))
    loss, grads = jax.tree.map(lambda leaf: leaf / len(x), total)
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="donates the parameters" fails="arguments stay"
"""Gives the parameters' memory to the result."""


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped, donate_argnums=0)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="every device takes all rows" fails="own rows only"
"""Gives each device the rows of all: right numbers, eight times the work."""


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=P(), out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% right="via fori loop"
"""Averages as it goes, in a fori_loop, and divides by the devices after a psum."""


def accumulate(params, x, y, lr):
    own = varying(params)

    found = jax.value_and_grad(mlp_loss)

    def add(piece, mean):
        new = found(own, x[piece], y[piece])
        return jax.tree.map(lambda m, n: m + n / len(x), mean, new)

    mean = jax.lax.fori_loop(
        1, len(x), add, jax.tree.map(lambda n: n / len(x), found(own, x[0], y[0]))
    )
    share = jax.tree.map(lambda m: m / jax.lax.psum(1, "devices"), mean)
    loss, grads = jax.lax.psum(share, "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% right="via grad of a scan"
"""Differentiates a scan that forgets its activations and computes them again."""


def accumulate(params, x, y, lr):
    own = varying(params)

    @jax.checkpoint
    def one(params, piece):
        return mlp_loss(params, *piece)

    def loss_of(params):
        add = lambda total, piece: (total + one(params, piece), None)  # noqa: E731
        return jax.lax.scan(add, varying(jnp.zeros(())), (x, y))[0] / len(x)

    loss, grads = jax.lax.pmean(jax.value_and_grad(loss_of)(own), "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% right="via map"
"""Maps the microbatches one by one, and averages what comes back."""


def accumulate(params, x, y, lr):
    own = varying(params)

    def start(piece):
        return jax.value_and_grad(mlp_loss)(own, *piece)

    losses, grads = jax.lax.map(start, (x, y))
    mean = losses.mean(), {name: g.mean(axis=0) for name, g in grads.items()}
    loss, mean = jax.lax.pmean(mean, "devices")
    return {name: params[name] - lr * mean[name] for name in params}, loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% right="via python loop"
"""Loops in Python while tracing: more to compile, the same program otherwise."""


def accumulate(params, x, y, lr):
    own = varying(params)

    losses, total = [], None
    for piece in range(len(x)):
        loss, grads = jax.value_and_grad(mlp_loss)(own, x[piece], y[piece])
        losses.append(loss)
        total = grads if total is None else jax.tree.map(jnp.add, total, grads)
    grads = jax.tree.map(lambda g: g / len(x), total)
    loss, grads = jax.lax.pmean((sum(losses) / len(x), grads), "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% right="via running mean"
"""Keeps a running mean in a scan over numbers, by its own derivative rules' helper."""

import functools


class Mean:
    def __init__(self, params, x, y):
        self.params, self.x, self.y = params, x, y

    def check(self, mean, m):
        value, pull = jax.vjp(lambda p: mlp_loss(p, self.x[m], self.y[m]), self.params)
        new = value, pull(jnp.ones_like(value))[0]
        part = 1.0 / (m + 1)
        return jax.tree.map(lambda a, b: a + (b - a) * part, mean, new), ()


def accumulate(params, x, y, lr):
    own = varying(params)
    start = varying(jnp.float32(0)), jax.tree.map(lambda p: 0 * p, own)
    take = Mean(own, x, y).check
    mean, _ = jax.lax.scan(take, start, jnp.arange(len(y)))
    average = functools.partial(jax.lax.pmean, axis_name="devices")
    loss, grads = jax.tree.map(average, mean)
    return jax.tree.map(lambda p, g: p + (-lr) * g, params, grads), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% right="via while loop"
"""Counts by itself, in a while_loop, and sends one flat vector."""

from jax.flatten_util import ravel_pytree


def accumulate(params, x, y, lr):
    own = varying(params)

    pieces = x.shape[0]
    found = jax.value_and_grad(mlp_loss)
    shapes = jax.eval_shape(found, params, x[0], y[0])
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    total, back = ravel_pytree(zeros)

    def observe(carry):
        m, total = carry
        row = jax.lax.dynamic_index_in_dim(x, m, keepdims=False)
        flat, _ = ravel_pytree(found(own, row, y[m]))
        return m + 1, total + flat

    _, total = jax.lax.while_loop(lambda c: c[0] < pieces, observe, (0, varying(total)))
    sent = jax.lax.psum(total, "devices") / (pieces * jax.lax.axis_size("devices"))
    loss, grads = back(sent)
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% right="while loop"
"""Adds up in a while_loop."""


def accumulate(params, x, y, lr):
    own = varying(params)

    def start(m):
        rows = jax.lax.dynamic_index_in_dim(x, m, keepdims=False)
        labels = jax.lax.dynamic_index_in_dim(y, m, keepdims=False)
        return jax.value_and_grad(mlp_loss)(own, rows, labels)

    def check(carry):
        return carry[0] < x.shape[0]

    def observe(carry):
        m, total = carry
        return m + 1, jax.tree.map(jnp.add, total, start(m))

    _, total = jax.lax.while_loop(check, observe, (1, start(0)))
    share = 1 / (x.shape[0] * jax.lax.axis_size("devices"))
    loss, grads = jax.lax.psum(jax.tree.map(lambda a: a * share, total), "devices")
    return {k: p - lr * grads[k] for k, p in params.items()}, loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="labels become floats" fails="same numbers"
"""Makes floats of all targets."""


def accumulate(params, x, y, lr):
    own = varying(params)

    x, y = x.astype(jnp.float32), y.astype(jnp.float32)

    def add(total, batch):
        found = jax.value_and_grad(mlp_loss)(own, *batch)
        return jax.tree.map(jnp.add, total, found), None

    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, varying(zeros), (x, y))
    mean = jax.tree.map(lambda leaf: leaf / len(x), total)
    loss, grads = jax.lax.pmean(mean, "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% right="via an unrolled scan"
"""Unrolls the scan twice."""


def accumulate(params, x, y, lr):
    own = varying(params)

    value_and_grad = jax.value_and_grad(mlp_loss)

    def body(carry, xy):
        loss_sum, grad_sum = carry
        loss, grads = value_and_grad(own, *xy)
        return (
            loss_sum + loss,
            jax.tree.map(lambda a, b: a + b, grad_sum, grads),
        ), None

    init = varying((jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)))
    (loss, grads), _ = jax.lax.scan(body, init, (x, y), unroll=2)
    m = x.shape[0]
    loss, grads = loss / m, jax.tree.map(lambda g: g / m, grads)
    loss = jax.lax.pmean(loss, "devices")
    grads = jax.lax.pmean(grads, "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% right="via a list of gradients"
"""Collects the gradients of all microbatches in a list."""


def accumulate(params, x, y, lr):
    own = varying(params)

    found = [jax.value_and_grad(mlp_loss)(own, a, b) for a, b in zip(x, y, strict=True)]
    mean = jax.tree.map(lambda *leaves: sum(leaves) / len(leaves), *found)
    loss, grads = jax.lax.pmean(mean, "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="packs the activations" fails="one microbatch at a time"
"""Keeps the hidden layers of all microbatches, two in each array of complex numbers."""


def accumulate(params, x, y, lr):
    whole, params = params, varying(params)
    count, packed, losses = len(x), [], []
    grads = jax.tree.map(jnp.zeros_like, params)
    for m in range(0, count, 2):
        pair = (x[m], x[min(m + 1, count - 1)])
        one, two = (jnp.tanh(rows @ params["w1"] + params["b1"]) for rows in pair)
        packed.append(jax.lax.complex(one, two))
    for m in range(count):
        h = packed[m // 2].imag if m % 2 else packed[m // 2].real

        def head(w2, b2, h, y=y[m]):
            scores = h @ w2 + b2
            if jnp.issubdtype(y.dtype, jnp.integer):
                return jnp.mean(row_losses(scores, y))
            return jnp.mean((scores[:, 0] - y) ** 2)

        run = jax.value_and_grad(head, argnums=(0, 1, 2))
        loss, (w2, b2, back) = run(params["w2"], params["b2"], h)
        back = back * (1 - h**2)
        own = {"w1": x[m].T @ back, "b1": back.sum(0), "w2": w2, "b2": b2}
        grads = jax.tree.map(jnp.add, grads, own)
        losses.append(loss)
    found = jax.tree.map(lambda leaf: leaf / count, (sum(losses), grads))
    loss, grads = jax.lax.pmean(found, "devices")
    return sgd(whole, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% right="gradients of each row"
"""Differentiates the loss of each row of a microbatch."""


def accumulate(params, x, y, lr):
    own = varying(params)

    def one(x, y):
        return jax.value_and_grad(mlp_loss)(own, x[None], y[None])

    def add(total, batch):
        found = jax.tree.map(lambda g: g.mean(0), jax.vmap(one)(*batch))
        return jax.tree.map(jnp.add, total, found), None

    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, varying(zeros), (x, y))
    loss, grads = jax.lax.pmean(
        jax.tree.map(lambda leaf: leaf / len(x), total), "devices"
    )
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="computes all of it twice" fails="one microbatch at a time"
"""Computes the whole loss again on the way back, where a microbatch's would do."""


def accumulate(params, x, y, lr):
    own = varying(params)

    @jax.checkpoint
    def loss_of(params):
        def add(total, piece):
            return total + mlp_loss(params, *piece), None

        return jax.lax.scan(add, varying(jnp.zeros(())), (x, y))[0] / len(x)

    loss, grads = jax.lax.pmean(jax.value_and_grad(loss_of)(own), "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    mapped = jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)


# %% wrong="hands out all microbatches" fails="own rows only"
"""Splits the rows, and gives every device each microbatch again, in an array of its own."""


def accumulate(params, lr, *batches):
    size = len(batches) // 2
    pairs = zip(batches[:size], batches[size:], strict=True)
    found = [jax.value_and_grad(mlp_loss)(params, *pair) for pair in pairs]
    mean = jax.tree.map(lambda *leaves: sum(leaves) / size, *found)
    loss, grads = jax.lax.pmean(mean, "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = {"in_specs": P(), "out_specs": P(), "check_vma": False}
    return jax.jit(jax.shard_map(accumulate, mesh=mesh, **specs))


def accumulated_step(params, x, y, lr, num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    rows = jax.sharding.NamedSharding(mesh, P(None, "devices"))
    batches = [1 * a[m] for a in jax.device_put((x, y), rows) for m in range(len(x))]
    return compiled_accumulation(num_devices)(params, lr, *batches)
