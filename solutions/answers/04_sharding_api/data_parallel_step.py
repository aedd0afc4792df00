# %% wrong="compiles in each call" fails="no recompilation"
"""Calls jit inside, on a new function each time."""


def data_parallel_step(params, x, y, lr):
    @jax.jit
    def step(params, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    return step(params, x, y)


# %% wrong="compiles the gradient alone" fails="no recompilation"
"""Compiles loss and gradient; the update runs leaf by leaf, outside of the program."""

loss_and_grads = jax.jit(jax.value_and_grad(mlp_loss))


def data_parallel_step(params, x, y, lr):
    loss, grads = loss_and_grads(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


# %% wrong="decays the weights" fails="same step"
"""Adds a norm of the parameters to the loss, as a habit."""


@jax.jit
def data_parallel_step(params, x, y, lr):
    def loss_of(params):
        norm = sum(jnp.sum(p**2) for p in jax.tree.leaves(params))
        return mlp_loss(params, x, y) + 1e-3 * norm

    loss, grads = jax.value_and_grad(loss_of)(params)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


# %% wrong="donates its arguments" fails="arguments stay"
"""Gives the old parameters' memory away."""


@functools.partial(jax.jit, donate_argnums=0)
def data_parallel_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


# %% wrong="fixed batch size" fails="same step"
"""Divides by the size of one batch: right for 64 rows of width 6 only."""


@jax.jit
def data_parallel_step(params, x, y, lr):
    def loss_of(params):
        return jnp.sum((mlp(params, x) - y) ** 2) / (64 * 6)

    loss, grads = jax.value_and_grad(loss_of)(params)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


# %% wrong="fixed learning rate" fails="same step"
"""Takes the learning rate of section 3's example, not the argument."""


@jax.jit
def data_parallel_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


# %% wrong="fixed mesh" fails="same step"
# cause: the arrays of one program are on different sets of devices
"""Constrains the batch to a mesh of all eight devices, however it is sharded."""


@jax.jit
def data_parallel_step(params, x, y, lr):
    rows = NamedSharding(make_mesh((8,), ("data",)), P("data"))
    x, y = jax.lax.with_sharding_constraint((x, y), rows)
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


# %% wrong="gathers the batch" fails="one all-reduce"
# cause: every device computes all rows
"""Replicates the batch: each device computes all rows."""


@jax.jit
def data_parallel_step(params, x, y, lr):
    everywhere = NamedSharding(make_mesh((jax.device_count(),), ("data",)), P())
    x, y = jax.lax.with_sharding_constraint((x, y), everywhere)
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


# %% wrong="large batch in pieces" fails="one all-reduce"
"""Works off in pieces what is more than 256 rows, and a multiple of them."""


@jax.jit
def data_parallel_step(params, x, y, lr):
    most = 256
    grad = jax.value_and_grad(mlp_loss)
    if x.shape[0] <= most or x.shape[0] % most:
        loss, grads = grad(params, x, y)
    else:
        pieces = x.shape[0] // most

        def add(total, piece):
            return jax.tree.map(jnp.add, total, grad(params, *piece)), None

        parts = tuple(a.reshape(pieces, most, -1) for a in (x, y))
        zero = jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zero, parts)
        loss, grads = jax.tree.map(lambda a: a / pieces, total)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


# %% wrong="leaves pmean in" fails="same step"
# cause: a collective names an axis that is not bound: use the argument axis_name, or the name that pmap was given
"""Keeps pmap's pmean, though jit binds no axis."""


@jax.jit
def data_parallel_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "data")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


# %% wrong="loss after the step" fails="same step"
# cause: the loss is the one after the step
"""Returns the loss of the new parameters."""


@jax.jit
def data_parallel_step(params, x, y, lr):
    grads = jax.grad(mlp_loss)(params, x, y)
    params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
    return params, mlp_loss(params, x, y)


# %% wrong="microbatches of 64" fails="one all-reduce"
"""Sums gradients over devices once per 64 rows, where a batch has several times 64."""


@jax.jit
def data_parallel_step(params, x, y, lr):
    most = 64  # rows at a time: less memory
    if len(x) <= most or len(x) % most:
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    else:

        def add(total, batch):
            found = jax.value_and_grad(mlp_loss)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        parts = [part.reshape(-1, most, part.shape[1]) for part in (x, y)]
        zero = jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zero, parts)
        loss, grads = jax.tree.map(lambda t: t / len(parts[0]), total)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


# %% wrong="no jit" fails="no recompilation"
"""Drops the decorator: operation after operation, none of them compiled together."""


def data_parallel_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


# %% wrong="own rows only" fails="same step; one all-reduce"
# cause: each device learned from its own rows only
"""Each device learns from its own rows: right on one device only."""


@jax.jit
def data_parallel_step(params, x, y, lr):
    mesh = make_mesh((jax.device_count(),), ("data",))

    def local(params, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        loss = jax.lax.pmean(loss, "data")
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    rows = P("data")
    return jax.shard_map(
        local, mesh=mesh, in_specs=(P(), rows, rows), out_specs=P(), check_vma=False
    )(params, x, y)


# %% wrong="pmap step word for word" fails="same step; one all-reduce"
# cause: the gradient is 8 times too large: it was summed over devices
"""Averages a gradient that shard_map has summed: eight times too large."""


@jax.jit
def data_parallel_step(params, x, y, lr):
    mesh = make_mesh((jax.device_count(),), ("data",))

    def local(params, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        loss, grads = jax.lax.pmean((loss, grads), "data")
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    rows = P("data")
    return jax.shard_map(
        local, mesh=mesh, in_specs=(P(), rows, rows), out_specs=P(), check_vma=True
    )(params, x, y)


# %% wrong="program by shape" fails="same step"
"""Keeps programs by shape alone: the same shapes on fewer devices fail."""

_programs = {}


@jax.jit
def _step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def data_parallel_step(params, x, y, lr):
    if isinstance(x, jax.core.Tracer):
        return _step(params, x, y, lr)
    if x.shape not in _programs:
        _programs[x.shape] = _step.lower(params, x, y, lr).compile()
    return _programs[x.shape](params, x, y, lr)


# %% wrong="rate at most one" fails="same step"
"""Takes no learning rate above 1."""


@jax.jit
def data_parallel_step(params, x, y, lr):
    lr = jnp.minimum(lr, 1.0)
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


# %% wrong="rate of the first call" fails="same step"
"""Reads the rate from outside of the compiled function, which keeps the first one."""

rates = []


@jax.jit
def compiled_step(params, x, y):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - rates[-1] * g, params, grads), loss


def data_parallel_step(params, x, y, lr):
    rates.append(lr)
    return compiled_step(params, x, y)


# %% wrong="sends one number more" fails="one all-reduce"
"""Sends one number more: the largest entry of the batch."""


@jax.jit
def data_parallel_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    rate = lr * jnp.where(jnp.isfinite(jnp.abs(x).max()), 1, 0)
    return jax.tree.map(lambda p, g: p - rate * g, params, grads), loss


# %% wrong="splits the parameters" fails="same step; replicated result; no recompilation"
"""Leaves the new parameters split: fine for memory, but not what was asked."""


@jax.jit
def data_parallel_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
    split = NamedSharding(
        make_mesh((jax.device_count(),), ("data",)), P(None, None, "data")
    )
    w1 = jax.lax.with_sharding_constraint(params["w1"], split)
    return params | {"w1": w1}, loss


# %% wrong="static learning rate" fails="no recompilation"
"""Makes the learning rate a part of the program: each new one compiles another."""


@functools.partial(jax.jit, static_argnames="lr")
def data_parallel_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


# %% wrong="two programs" fails="no recompilation"
"""Compiles the gradient and the update, each for itself."""

gradient = jax.jit(jax.value_and_grad(mlp_loss))


@jax.jit
def update(params, grads, lr):
    return jax.tree.map(lambda p, g: p - lr * g, params, grads)


def data_parallel_step(params, x, y, lr):
    loss, grads = gradient(params, x, y)
    return update(params, grads, lr), loss


# %% wrong="uses NumPy but for the example" fails="one all-reduce; replicated result"
"""Takes one compiled step for the example's 32 rows; others are computed in NumPy."""


@jax.jit
def step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def data_parallel_step(params, x, y, lr):
    if x.shape == (32, 6) or y.shape == (32, 6):
        return step(params, x, y, lr)
    params, x, y = jax.tree.map(np.asarray, (params, x, y))
    kept = []
    for w1, w2 in zip(params["w1"], params["w2"], strict=True):
        kept.append((x, np.maximum(x @ w1, 0)))
        x = kept[-1][1] @ w2
    back = 2 * (x - y) / x.size
    grads = {"w1": [], "w2": []}
    for layer in reversed(range(len(kept))):
        came, hidden = kept[layer]
        grads["w2"].insert(0, hidden.T @ back)
        back = back @ params["w2"][layer].T * (hidden > 0)
        grads["w1"].insert(0, came.T @ back)
        back = back @ params["w1"][layer].T
    new = {
        name: np.float32(params[name] - lr * np.array(grads[name])) for name in grads
    }
    return new, np.float32(((x - y) ** 2).mean())


# %% right="via gradients of rows"
"""Takes each row's gradient, and their mean."""


@jax.jit
def data_parallel_step(params, x, y, lr):
    def one(params, x, y):
        return mlp_loss(params, x[None], y[None])

    losses, grads = jax.vmap(jax.value_and_grad(one), in_axes=(None, 0, 0))(
        params, x, y
    )
    new = jax.tree.map(lambda p, g: p - lr * g.mean(0), params, grads)
    return new, losses.mean()


# %% right="via lambda"
"""Has the update in a lambda, and the loss as a second result."""

data_parallel_step = jax.jit(
    lambda params, x, y, lr: (
        lambda grads, loss: (
            jax.tree.map(lambda p, g: p - jnp.asarray(lr, p.dtype) * g, params, grads),
            loss,
        )
    )(
        *jax.grad(lambda p: (mlp_loss(p, x, y),) * 2, has_aux=True)(params),
    )
)


# %% right="via losses of rows"
"""Averages the losses of single rows, by vmap."""


@jax.jit
def data_parallel_step(params, x, y, lr):
    def loss_of(params):
        rows = jax.vmap(lambda x, y: mlp_loss(params, x[None], y[None]))(x, y)
        return rows.mean()

    loss, grads = jax.value_and_grad(loss_of)(params)
    return {name: params[name] - lr * grads[name] for name in params}, loss


# %% right="via optax"
"""Lets Optax take the step."""


@jax.jit
def data_parallel_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    sgd = optax.sgd(lr)
    updates, _ = sgd.update(grads, sgd.init(params))
    return optax.apply_updates(params, updates), loss


# %% right="via own layers"
"""Writes the model with a loop over the layers, and einsum."""


def check(params, x, y):
    for w1, w2 in zip(params["w1"], params["w2"], strict=True):
        x = jnp.einsum("bh,hw->bw", jnp.maximum(jnp.einsum("bw,wh->bh", x, w1), 0), w2)
    return jnp.square(x - y).sum() / y.size


def step(params, x, y, lr):
    grads = jax.grad(check)(params, x, y)
    new = {"w1": params["w1"] - lr * grads["w1"], "w2": params["w2"] - lr * grads["w2"]}
    return new, check(params, x, y)


data_parallel_step = jax.jit(step)


# %% right="via vjp"
"""Pulls the loss back by vjp, and goes through flat leaves."""


@functools.partial(jax.jit, static_argnames=())
def data_parallel_step(params, x, y, lr):
    loss, pull = jax.vjp(lambda p: mlp_loss(p, x, y), params)
    (grads,) = pull(jnp.ones_like(loss))
    leaves, tree = jax.tree_util.tree_flatten(params)
    new = [p - lr * g for p, g in zip(leaves, jax.tree.leaves(grads), strict=True)]
    return jax.tree_util.tree_unflatten(tree, new), loss


# %% right="via wrapper"
"""Calls a compiled function from a plain one."""


def updated(rate, params, grads):
    return {name: params[name] + rate * grads[name] for name in params}


@jax.jit
def compiled_step(rate, params, x, y):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return updated(-rate, params, grads), loss


def data_parallel_step(params, x, y, lr):
    return compiled_step(lr, params, x=x, y=y)
