# %% wrong="folds in the device" fails="same masks on any mesh"
# cause: a mask follows the device's number, not the row's place in the batch
"""Folds the device's index into the key: other masks on another number of devices."""


def dropout_mask(key, step, num_rows, num_units):
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index("devices"))
    return jax.random.bernoulli(key, 0.5, (num_rows, num_units))


def moments(h):
    mean = jax.lax.pmean(h.mean((0, 1, 2)), "devices")
    return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), "devices")


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jax.lax.pmean(jnp.mean(row_losses(scores, y)), "devices"), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% wrong="same masks on every device" fails="same masks on any mesh; fresh masks"
# cause: every device draws the same masks
"""Leaves the device out: eight devices drop the same units."""


def dropout_mask(key, step, num_rows, num_units):
    key = jax.random.fold_in(key, step)
    return jax.random.bernoulli(key, 0.5, (num_rows, num_units))


def moments(h):
    mean = jax.lax.pmean(h.mean((0, 1, 2)), "devices")
    return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), "devices")


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jax.lax.pmean(jnp.mean(row_losses(scores, y)), "devices"), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% wrong="adds step and row" fails="fresh masks"
# cause: step and row are added: fold each of them in by itself
"""Folds in step + row: a row's mask is its neighbour's of the step before."""


def dropout_mask(key, step, num_rows, num_units):
    rows = step + jax.lax.axis_index("devices") * num_rows + jnp.arange(num_rows)
    keys = jax.vmap(lambda number: jax.random.fold_in(key, number))(rows)
    return jax.vmap(lambda key: jax.random.bernoulli(key, 0.5, (num_units,)))(keys)


def moments(h):
    mean = jax.lax.pmean(h.mean((0, 1, 2)), "devices")
    return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), "devices")


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jax.lax.pmean(jnp.mean(row_losses(scores, y)), "devices"), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% wrong="same masks in every step" fails="fresh masks"
# cause: the step is not in the key
"""Leaves the step out of the key: the same units stay dropped."""


def dropout_mask(key, step, num_rows, num_units):
    first = jax.lax.axis_index("devices") * num_rows
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(
        first + jnp.arange(num_rows)
    )
    return jax.vmap(lambda key: jax.random.bernoulli(key, 0.5, (num_units,)))(keys)


def moments(h):
    mean = jax.lax.pmean(h.mean((0, 1, 2)), "devices")
    return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), "devices")


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jax.lax.pmean(jnp.mean(row_losses(scores, y)), "devices"), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% wrong="a key of its own" fails="fresh masks"
# cause: the key is not used
"""Draws from a key of its own, whatever key it is given."""


def dropout_mask(key, step, num_rows, num_units):
    first = jax.lax.axis_index("devices") * num_rows
    key = jax.random.fold_in(jax.random.key(0), step)
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(
        first + jnp.arange(num_rows)
    )
    return jax.vmap(lambda key: jax.random.bernoulli(key, 0.5, (num_units,)))(keys)


def moments(h):
    mean = jax.lax.pmean(h.mean((0, 1, 2)), "devices")
    return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), "devices")


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jax.lax.pmean(jnp.mean(row_losses(scores, y)), "devices"), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% wrong="keeps nine of ten" fails="fresh masks"
"""Keeps a unit with probability 0.9, as another network might."""


def dropout_mask(key, step, num_rows, num_units):
    first = jax.lax.axis_index("devices") * num_rows
    key = jax.random.fold_in(key, step)
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(
        first + jnp.arange(num_rows)
    )
    return jax.vmap(lambda key: jax.random.bernoulli(key, 0.9, (num_units,)))(keys)


def moments(h):
    mean = jax.lax.pmean(h.mean((0, 1, 2)), "devices")
    return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), "devices")


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jax.lax.pmean(jnp.mean(row_losses(scores, y)), "devices"), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% wrong="local moments" fails="same numbers; moments of the whole batch"
# cause: these are the moments of device 0
"""Normalises with the moments of the device's own rows, and returns device 0's."""


def dropout_mask(key, step, num_rows, num_units):
    first = jax.lax.axis_index("devices") * num_rows
    key = jax.random.fold_in(key, step)
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(
        first + jnp.arange(num_rows)
    )
    return jax.vmap(lambda key: jax.random.bernoulli(key, 0.5, (num_units,)))(keys)


moments = batch_moments


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jnp.mean(row_losses(scores, y)), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs, check_vma=False)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% wrong="mean of the variances" fails="same numbers; moments of the whole batch"
# cause: each variance is the mean of the devices' own: first agree on the mean
"""Averages the devices' variances, each around its own mean."""


def dropout_mask(key, step, num_rows, num_units):
    first = jax.lax.axis_index("devices") * num_rows
    key = jax.random.fold_in(key, step)
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(
        first + jnp.arange(num_rows)
    )
    return jax.vmap(lambda key: jax.random.bernoulli(key, 0.5, (num_units,)))(keys)


def moments(h):
    return jax.lax.pmean(batch_moments(h), "devices")


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jax.lax.pmean(jnp.mean(row_losses(scores, y)), "devices"), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% wrong="no gradient through the moments" fails="same numbers"
# cause: no gradient flows through the moments
"""Takes the moments for constants, through which no gradient flows."""


def dropout_mask(key, step, num_rows, num_units):
    first = jax.lax.axis_index("devices") * num_rows
    key = jax.random.fold_in(key, step)
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(
        first + jnp.arange(num_rows)
    )
    return jax.vmap(lambda key: jax.random.bernoulli(key, 0.5, (num_units,)))(keys)


def moments(h):
    h = jax.lax.stop_gradient(h)
    mean = jax.lax.pmean(h.mean((0, 1, 2)), "devices")
    return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), "devices")


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jax.lax.pmean(jnp.mean(row_losses(scores, y)), "devices"), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% wrong="syncs as in pmap" fails="same numbers"
# cause: the gradients are 8 times too large
"""Averages gradients that arrive summed: eight times too large."""


def dropout_mask(key, step, num_rows, num_units):
    first = jax.lax.axis_index("devices") * num_rows
    key = jax.random.fold_in(key, step)
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(
        first + jnp.arange(num_rows)
    )
    return jax.vmap(lambda key: jax.random.bernoulli(key, 0.5, (num_units,)))(keys)


def moments(h):
    mean = jax.lax.pmean(h.mean((0, 1, 2)), "devices")
    return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), "devices")


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jnp.mean(row_losses(scores, y)), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% wrong="donates the state" fails="arguments stay"
"""Gives the state's memory to the result."""


def dropout_mask(key, step, num_rows, num_units):
    first = jax.lax.axis_index("devices") * num_rows
    key = jax.random.fold_in(key, step)
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(
        first + jnp.arange(num_rows)
    )
    return jax.vmap(lambda key: jax.random.bernoulli(key, 0.5, (num_units,)))(keys)


def moments(h):
    mean = jax.lax.pmean(h.mean((0, 1, 2)), "devices")
    return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), "devices")


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jax.lax.pmean(jnp.mean(row_losses(scores, y)), "devices"), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs)
    return jax.jit(mapped, donate_argnums=0)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% wrong="static step" fails="no recompilation"
"""Compiles a program for each step."""


def dropout_mask(key, step, num_rows, num_units):
    first = jax.lax.axis_index("devices") * num_rows
    key = jax.random.fold_in(key, step)
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(
        first + jnp.arange(num_rows)
    )
    return jax.vmap(lambda key: jax.random.bernoulli(key, 0.5, (num_units,)))(keys)


def moments(h):
    mean = jax.lax.pmean(h.mean((0, 1, 2)), "devices")
    return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), "devices")


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jax.lax.pmean(jnp.mean(row_losses(scores, y)), "devices"), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), rows, rows, P()), "out_specs": P()}

    def run(state, key, step, *rest):
        def device(state, key, *rest):
            return device_cnn_step(state, key, step, *rest)

        return jax.shard_map(device, mesh=mesh, **specs)(state, key, *rest)

    return jax.jit(run, static_argnums=2)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% wrong="every device takes all rows" fails="own rows only"
"""Leaves the batch whole: right numbers, eight times the work."""


def dropout_mask(key, step, num_rows, num_units):
    first = jax.lax.axis_index("devices") * num_rows
    key = jax.random.fold_in(key, step)
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(
        first + jnp.arange(num_rows)
    )
    return jax.vmap(lambda key: jax.random.bernoulli(key, 0.5, (num_units,)))(keys)


moments = batch_moments


def device_cnn_step(state, key, step, x, y, lr):
    size = jax.lax.axis_size("devices")

    def loss_of(params):
        keep = jax.lax.all_gather(
            dropout_mask(key, step, len(x) // size, len(params["out"])),
            "devices",
            tiled=True,
        )
        scores, used = cnn(params, x, keep, moments)
        return jnp.mean(row_losses(scores, y)), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P()
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs, check_vma=False)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% right="draws for the whole batch"
"""Draws the masks of all rows everywhere, and takes its own."""


def dropout_mask(key, step, num_rows, num_units):
    every = num_rows * jax.lax.axis_size("devices")
    key = jax.random.fold_in(key, step)
    mask = jax.random.bernoulli(key, 0.5, (every, num_units))
    first = jax.lax.axis_index("devices") * num_rows
    return jax.lax.dynamic_slice_in_dim(mask, first, num_rows)


def moments(h):
    mean = jax.lax.pmean(h.mean((0, 1, 2)), "devices")
    return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), "devices")


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jax.lax.pmean(jnp.mean(row_losses(scores, y)), "devices"), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% right="splits a key for each row"
"""Splits the step's key into one for each row of the batch."""


def dropout_mask(key, step, num_rows, num_units):
    every = num_rows * jax.lax.axis_size("devices")
    keys = jax.random.split(jax.random.fold_in(key, step), every)
    first = jax.lax.axis_index("devices") * num_rows
    own = jax.lax.dynamic_slice_in_dim(keys, first, num_rows)
    return jax.vmap(lambda key: jax.random.bernoulli(key, shape=(num_units,)))(own)


def moments(h):
    mean = jax.lax.pmean(h.mean((0, 1, 2)), "devices")
    return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), "devices")


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jax.lax.pmean(jnp.mean(row_losses(scores, y)), "devices"), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% right="row first, then step"
"""Folds in the row before the step, and compares uniform numbers."""


def dropout_mask(key, step, num_rows, num_units):
    def draw(row):
        own = jax.random.fold_in(jax.random.fold_in(key, row), step)
        return jax.random.uniform(own, (num_units,)) < 0.5

    first = jax.lax.axis_index("devices") * num_rows
    return jax.lax.map(draw, first + jnp.arange(num_rows))


def moments(h):
    mean = jax.lax.pmean(h.mean((0, 1, 2)), "devices")
    return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), "devices")


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jax.lax.pmean(jnp.mean(row_losses(scores, y)), "devices"), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% right="via random bits"
"""Draws bytes, and keeps a unit where they are below 128."""


def dropout_mask(key, step, num_rows, num_units):
    key, rows = jax.random.fold_in(key, step), []
    for row in range(num_rows):
        place = jax.lax.axis_index("devices") * num_rows + row
        bits = jax.random.bits(jax.random.fold_in(key, place), (num_units,), jnp.uint8)
        rows.append(bits < 128)
    return jnp.stack(rows)


def moments(h):
    mean = jax.lax.pmean(h.mean((0, 1, 2)), "devices")
    return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), "devices")


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jax.lax.pmean(jnp.mean(row_losses(scores, y)), "devices"), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% right="mean of squares, as Flax"
"""Averages h and its square in one go."""


def dropout_mask(key, step, num_rows, num_units):
    first = jax.lax.axis_index("devices") * num_rows
    key = jax.random.fold_in(key, step)
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(
        first + jnp.arange(num_rows)
    )
    return jax.vmap(lambda key: jax.random.bernoulli(key, 0.5, (num_units,)))(keys)


def moments(h):
    both = jax.lax.pmean((h.mean((0, 1, 2)), (h**2).mean((0, 1, 2))), "devices")
    return both[0], both[1] - both[0] ** 2


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jax.lax.pmean(jnp.mean(row_losses(scores, y)), "devices"), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% wrong="gathers the activations" fails="own rows only"
# cause: rows are gathered: each device adds up its own, and psum adds the sums
"""Gathers the activations of all devices, and takes their moments."""


def dropout_mask(key, step, num_rows, num_units):
    first = jax.lax.axis_index("devices") * num_rows
    key = jax.random.fold_in(key, step)
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(
        first + jnp.arange(num_rows)
    )
    return jax.vmap(lambda key: jax.random.bernoulli(key, 0.5, (num_units,)))(keys)


def moments(h):
    every = jax.lax.all_gather(h, "devices", tiled=True)
    mean, var = batch_moments(every)
    return jax.lax.pmean(mean, "devices"), jax.lax.pmean(var, "devices")


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jax.lax.pmean(jnp.mean(row_losses(scores, y)), "devices"), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% right="via mean and variance of means"
"""Adds the variance of the devices' means to the mean of their variances."""


def dropout_mask(key, step, num_rows, num_units):
    first = jax.lax.axis_index("devices") * num_rows
    key = jax.random.fold_in(key, step)
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(
        first + jnp.arange(num_rows)
    )
    return jax.vmap(lambda key: jax.random.bernoulli(key, 0.5, (num_units,)))(keys)


def moments(h):
    own, var = batch_moments(h)
    mean = jax.lax.pmean(own, "devices")
    return mean, jax.lax.pmean(var + (own - mean) ** 2, "devices")


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jax.lax.pmean(jnp.mean(row_losses(scores, y)), "devices"), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% right="via check vma false"
"""Turns the tracking off, and averages the gradients as in pmap."""


def dropout_mask(key, step, num_rows, num_units):
    every = num_rows * jax.lax.axis_size("devices")
    key = jax.random.fold_in(key, step)
    mask = jax.random.bernoulli(key, 0.5, (every, num_units))
    first = jax.lax.axis_index("devices") * num_rows
    return jax.lax.dynamic_slice_in_dim(mask, first, num_rows)


def moments(h):
    mean = jax.lax.pmean(h.mean((0, 1, 2)), "devices")
    return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), "devices")


def device_cnn_step(state, key, step, x, y, lr):
    def loss_of(params):
        keep = dropout_mask(key, step, len(x), len(params["out"]))
        scores, used = cnn(params, x, keep, moments)
        return jnp.mean(row_losses(scores, y)), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs, check_vma=False)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)


# %% wrong="gathers the batch" fails="own rows only"
# cause: rows are gathered: each device adds up its own, and psum adds the sums
"""Gathers the rows and the masks of all devices, and takes the whole step on each."""


def dropout_mask(key, step, num_rows, num_units):
    first = jax.lax.axis_index("devices") * num_rows
    key = jax.random.fold_in(key, step)
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(
        first + jnp.arange(num_rows)
    )
    return jax.vmap(lambda key: jax.random.bernoulli(key, 0.5, (num_units,)))(keys)


moments = batch_moments


def device_cnn_step(state, key, step, x, y, lr):
    keep = dropout_mask(key, step, len(x), len(state["params"]["out"]))
    x, y, keep = jax.lax.all_gather((x, y, keep), "devices", tiled=True)

    def loss_of(params):
        scores, used = cnn(params, x, keep, moments)
        return jnp.mean(row_losses(scores, y)), used

    found = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


@functools.cache
def compiled_cnn_step(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), P(), P(), rows, rows, P()), "out_specs": P()}
    mapped = jax.shard_map(device_cnn_step, mesh=mesh, **specs, check_vma=False)
    return jax.jit(mapped)


def cnn_step(state, key, step, x, y, lr, num_devices):
    return compiled_cnn_step(num_devices)(state, key, step, x, y, lr)
