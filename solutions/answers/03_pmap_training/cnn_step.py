# %% wrong="adds step and index" fails="mask per step and device; same numbers"
"""Folds in step + device: device 1's mask of this step is device 0's of the next."""


def dropout_mask(key, step, shape, axis_name):
    number = step + jax.lax.axis_index(axis_name)
    return jax.random.bernoulli(jax.random.fold_in(key, number), 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = jax.lax.pmean((found, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% wrong="asserts about the step" fails="mask per step and device"
# cause: in traced code `if` cannot depend on a value: jnp.where chooses there
"""Decides by a traced value in Python."""


def dropout_mask(key, step, shape, axis_name):
    assert step >= 0
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = jax.lax.pmean((found, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% wrong="averages the running moments alone" fails="same numbers; moments of the whole batch"
# cause: each variance is the mean of the devices' own: first agree on the mean
"""Lets the running moments agree, but each batch was normalised by its own."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    moments = batch_moments

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = jax.lax.pmean((found, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% wrong="device before step" fails="mask per step and device; same numbers"
# cause: the device came before the step
"""Folds the device's index in before the step."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    key = jax.random.fold_in(key, step)
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = jax.lax.pmean((found, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% wrong="drops nothing" fails="same numbers"
"""Draws the masks and never uses them."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, jnp.ones_like(keep), moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = jax.lax.pmean((found, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% wrong="floors the variance" fails="same numbers"
"""Rounds small variances up, as those of images of small contrast are."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        var = jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)
        return mean, jnp.maximum(var, 1e-5)

    keep = dropout_mask(key, step, (len(x), len(state["params"]["out"])), axis_name)

    def loss_of(params):
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    (loss, used), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% wrong="knows one layer" fails="moments of the whole batch"
"""Updates the running moments of the first layer alone."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = jax.lax.pmean((found, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    first = moving_average(state["stats"][0], used[0])
    return {"params": params, "stats": [first, *state["stats"][1:]]}, loss


# %% wrong="knows the learning rate" fails="same numbers"
"""Writes the learning rate of the example into the step."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = jax.lax.pmean((found, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - 0.2 * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% wrong="knows the masks shape" fails="mask per step and device"
"""Draws the mask of one example, whatever network and batch there are."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, (4, 16))


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = jax.lax.pmean((found, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% wrong="local moments" fails="same numbers; moments of the whole batch; replicas agree"
# cause: each device took the moments of its own rows
"""Normalises with the device's own moments and averages nothing but gradients: right on
one device.
"""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    moments = batch_moments

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found, jax.lax.pmean(grads, axis_name)
    loss = jax.lax.pmean(loss, axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% wrong="mean of the variances" fails="same numbers; moments of the whole batch"
# cause: each variance is the mean of the devices' own: first agree on the mean
"""Averages the devices' variances, each around its own mean."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        return jax.lax.pmean(batch_moments(h), axis_name)

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = jax.lax.pmean((found, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% wrong="needs a plain step" fails="mask per step and device"
# cause: traced code has no numbers yet, so int() and float() find none: compute with the value as it is
"""Turns the step into a Python int, which a traced step has not become yet."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, int(step))
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = jax.lax.pmean((found, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% wrong="normalises with the running moments" fails="same numbers"
"""Normalises with the running moments, as in predictions."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    used, running = [], iter(state["stats"] * 2)

    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        var = jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)
        used.append(jax.lax.stop_gradient({"mean": mean, "var": var}))
        return next(running).values()

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, _ = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), list(used)

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, new), grads = jax.lax.pmean((found, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], new)}, loss


# %% wrong="replaces the running moments" fails="same numbers; moments of the whole batch"
"""Keeps the last batch's moments in place of their moving average."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = jax.lax.pmean((found, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": used}, loss


# %% wrong="same mask everywhere" fails="mask per step and device; same numbers"
# cause: every device drops the same units: fold the device's index in
"""Leaves the device out of the key: eight devices drop the same units."""


def dropout_mask(key, step, shape, axis_name):
    return jax.random.bernoulli(jax.random.fold_in(key, step), 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = jax.lax.pmean((found, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% wrong="same mask in every step" fails="mask per step and device; same numbers"
# cause: the step is not in the key
"""Leaves the step out of the key: the same units stay dropped forever."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = jax.lax.pmean((found, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% wrong="short step" fails="mask per step and device"
"""Folds in the step as 16 bits: step 65536 draws the mask of step 0."""


def dropout_mask(key, step, shape, axis_name):
    step = jnp.asarray(step).astype(jnp.uint16)  # a traced step may have any dtype
    key = jax.random.fold_in(
        jax.random.fold_in(key, step), jax.lax.axis_index(axis_name)
    )
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    keep = dropout_mask(key, step, (len(x), len(state["params"]["out"])), axis_name)

    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)

    def loss_of(params):
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    (loss, used), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% wrong="starts the running moments anew" fails="moments of the whole batch"
"""Averages with the moments that training starts from, not with the old ones."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = jax.lax.pmean((found, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    old = [
        {"mean": jnp.zeros_like(s["mean"]), "var": jnp.ones_like(s["var"])}
        for s in state["stats"]
    ]
    return {"params": params, "stats": moving_average(old, used)}, loss


# %% wrong="sums the gradients" fails="same numbers"
# cause: the gradients were added up, not averaged
"""Adds the gradients up."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = (
        jax.lax.pmean(found, axis_name),
        jax.lax.psum(grads, axis_name),
    )
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% wrong="writes into state" fails="arguments stay"
"""Writes the new parameters into the dictionary that it was given."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(
        jax.random.fold_in(key, step), jax.lax.axis_index(axis_name)
    )
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    keep = dropout_mask(key, step, (len(x), len(state["params"]["out"])), axis_name)

    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)

    def loss_of(params):
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    (loss, used), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    state["params"] = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    state["stats"] = moving_average(state["stats"], used)
    return state, loss


# %% right="gathered rows"
"""Gathers all rows, and takes their moments."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    devices = jnp.arange(jax.lax.axis_size(axis_name))
    keys = jax.vmap(lambda d: jax.random.fold_in(key, d))(devices)
    return jax.random.bernoulli(keys[jax.lax.axis_index(axis_name)], 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    params, stats = state["params"], state["stats"]
    keep = dropout_mask(key, step, (x.shape[0], params["out"].shape[0]), axis_name)

    def observe(h):
        return batch_moments(jax.lax.all_gather(h, axis_name, tiled=True))

    def start(params):
        logits, used = cnn(params, x, keep, observe)
        return cross_entropy(logits, y), used

    loss, pull, used = jax.vjp(start, params, has_aux=True)
    (grads,) = pull(jnp.float32(1))
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    after = jax.tree.map(lambda p, g: p - lr * g, params, grads)
    return dict(params=after, stats=moving_average(stats, used)), loss


# %% right="mean of squares, as Flax"
"""The mean of squares less the square of the mean, as Flax does by default."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(
        jax.random.fold_in(key, step), jax.lax.axis_index(axis_name)
    )
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    keep = dropout_mask(key, step, (len(x), state["params"]["out"].shape[0]), axis_name)

    def moments(h):
        mean, square = jax.lax.pmean(
            (h.mean((0, 1, 2)), (h**2).mean((0, 1, 2))), axis_name
        )
        return mean, jnp.maximum(square - mean**2, 0)

    def loss_of(params):
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    (loss, used), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% right="via a class"
"""Keeps the axis in an object, and sends loss and gradients as one flat vector."""

from jax.flatten_util import ravel_pytree


class Workers:
    def __init__(self, axis):
        self.axis = axis

    def mean(self, value):
        return jax.lax.psum(value, self.axis) / jax.lax.psum(1.0, self.axis)

    def observe(self, h):
        mean = self.mean(jnp.mean(h, axis=(0, 1, 2)))
        own = jnp.mean(h, axis=(0, 1, 2))
        return mean, self.mean(jnp.var(h, axis=(0, 1, 2)) + (own - mean) ** 2)


def dropout_mask(key, step, shape, axis_name):
    for number in (step, jax.lax.axis_index(axis_name)):
        key = jax.random.fold_in(key, number)
    return jax.random.bernoulli(key, shape=shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    workers, _moments = Workers(axis_name), []

    def loss_of(params, stats):
        keep = dropout_mask(key, step, (len(y), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, workers.observe)
        return cross_entropy(logits, y), moving_average(stats, used)

    found = jax.value_and_grad(loss_of, has_aux=True)
    (loss, stats), grads = found(state["params"], state["stats"])
    flat, back = ravel_pytree((loss, grads))
    loss, grads = back(workers.mean(flat))
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"stats": stats, "params": params}, loss


# %% right="via gathered activations"
"""Gathers the activations of all devices for the moments: more bytes, same numbers."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        return batch_moments(jax.lax.all_gather(h, axis_name, tiled=True))

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = jax.lax.pmean((found, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% right="via gathered sums"
"""Gathers each device's sums in place of adding them up."""


def dropout_mask(key, step, shape, axis_name):
    fold = jax.random.fold_in
    return jax.random.bernoulli(
        fold(fold(key, step), jax.lax.axis_index(axis_name)), 0.5, shape
    )


def cnn_step(state, key, step, x, y, lr, axis_name):
    def over_devices(value):
        return jax.lax.all_gather(value, axis_name).mean(axis=0)

    def take(h):
        mean = over_devices(h.mean(axis=(0, 1, 2)))
        return mean, over_devices(((h - mean) ** 2).mean(axis=(0, 1, 2)))

    def run(params, keep):
        logits, used = cnn(params, x, keep, take)
        return cross_entropy(logits, y), used

    keep = dropout_mask(key, step, (len(x), len(state["params"]["out"])), axis_name)
    run = jax.value_and_grad(run, argnums=0, has_aux=True)
    (loss, used), grads = run(state["params"], keep)
    loss, grads = jax.tree.map(over_devices, (loss, grads))
    update = lambda p, g: p + -lr * g  # noqa: E731
    params = jax.tree.map(update, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% right="via mean and variance of means"
"""Adds the variance of the devices' means to the mean of their variances."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        local_mean, local_var = batch_moments(h)
        mean = jax.lax.pmean(local_mean, axis_name)
        var = jax.lax.pmean(local_var + (local_mean - mean) ** 2, axis_name)
        return mean, var

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    (loss, used), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    grads = jax.tree.map(lambda g: jax.lax.pmean(g, axis_name), grads)
    loss = jax.lax.pmean(loss, axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% right="via sums of all rows"
"""Adds up sums and counts for the moments, and compares random numbers itself."""

from functools import reduce


def dropout_mask(key, step, shape, axis_name):
    numbers = (step, jax.lax.axis_index(axis_name))
    start = reduce(jax.random.fold_in, numbers, key)
    return jax.random.uniform(start, shape) < 0.5


def cnn_step(state, key, step, x, y, lr, axis_name):
    def check(h):
        flat = h.reshape(-1, h.shape[-1])
        count = len(flat) * jax.lax.psum(1, axis_name)
        mean = jax.lax.psum(flat.sum(0), axis_name) / count
        square = jax.lax.psum(jnp.square(flat - mean).sum(0), axis_name)
        return mean, square / count

    def expect(params):
        size = (y.shape[0], params["out"].shape[0])
        keep = dropout_mask(key, step, size, axis_name)
        logits, used = cnn(params, x, keep, check)
        return cross_entropy(logits, y), used

    grads, used = jax.grad(expect, has_aux=True)(state["params"])
    loss, _ = expect(state["params"])
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    new = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    stats = [moving_average(a, b) for a, b in zip(state["stats"], used, strict=True)]
    return dict(params=new, stats=stats), loss


# %% right="via vjp and einsum"
"""Takes second moments about a shared mean by einsum, and pulls the gradient back."""


def dropout_mask(key, step, shape, axis_name):
    device = jax.lax.axis_index(axis_name)
    return jax.random.bernoulli(
        jax.random.fold_in(jax.random.fold_in(key, step), device), p=0.5, shape=shape
    )


def cnn_step(state, key, step, x, y, lr, axis_name):
    params, old = state["params"], state["stats"]
    rows, width = len(x), params["out"].shape[0]
    mask = dropout_mask(key, step, (rows, width), axis_name)

    def start(h):
        mean = jax.lax.pmean(jnp.einsum("bijc->c", h), axis_name)
        mean = mean / (h.shape[0] * h.shape[1] * h.shape[2])
        gap = h - mean
        second = jnp.einsum("bijc,bijc->c", gap, gap) / (h.size // h.shape[-1])
        return mean, jax.lax.pmean(second, axis_name)

    def loss_of(params):
        logits, used = cnn(params, x, mask.astype(jnp.float32), start)
        return cross_entropy(logits, y), used

    loss, back, used = jax.vjp(loss_of, params, has_aux=True)
    grads = jax.lax.pmean(back(jnp.ones(()))[0], axis_name)
    leaves, kind = jax.tree.flatten(params)
    moved = [p - lr * g for p, g in zip(leaves, jax.tree.leaves(grads), strict=True)]
    stats = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, old, used)
    loss = jax.lax.pmean(loss, axis_name)
    return {"params": kind.unflatten(moved), "stats": stats}, loss


# %% right="via shifted moments"
"""Measures from the first pixel of device 0: a shift, sums and squares, nine numbers for
three channels.
"""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    keep = dropout_mask(key, step, (len(x), state["params"]["out"].shape[0]), axis_name)

    def moments(h):
        is_first = jax.lax.axis_index(axis_name) == 0
        shift = jax.lax.psum(jnp.where(is_first, h[0, 0, 0], 0), axis_name)
        near = h - jax.lax.stop_gradient(shift)
        found = near.mean((0, 1, 2)), (near**2).mean((0, 1, 2))
        mean, square = jax.lax.pmean(found, axis_name)
        return mean + jax.lax.stop_gradient(shift), square - mean**2

    def loss_of(params):
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    (loss, used), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    stats = moving_average(state["stats"], used)
    return {"params": params, "stats": stats}, loss
