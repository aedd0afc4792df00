# %% wrong="all reduces" fails="bytes of one all-reduce"
# cause: every device was given all of the mean gradient
"""Sums all gradients everywhere and keeps a slice: more bytes than needed."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    me = lax.axis_index(axis_name)
    total = lax.psum(grads, axis_name).reshape(num_devices, *velocity.shape)[me]
    velocity = beta * velocity + total / num_devices
    own = weights.reshape(num_devices, *velocity.shape)[lax.axis_index(axis_name)]
    return lax.all_gather(own - lr * velocity, axis_name, tiled=True), velocity


# %% wrong="beta of the check" fails="same numbers"
"""Writes the visible check's decay into the code."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    total = lax.psum_scatter(grads, axis_name, tiled=True)
    velocity = 0.75 * velocity + total / num_devices
    own = weights.reshape(num_devices, *velocity.shape)[lax.axis_index(axis_name)]
    return lax.all_gather(own - lr * velocity, axis_name, tiled=True), velocity


# %% wrong="damps the gradient" fails="same numbers"
"""Takes a weighted mean of velocity and gradient, as Adam does."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    total = lax.psum_scatter(grads, axis_name, tiled=True)
    velocity = beta * velocity + (1 - beta) * total / num_devices
    own = weights.reshape(num_devices, *velocity.shape)[lax.axis_index(axis_name)]
    return lax.all_gather(own - lr * velocity, axis_name, tiled=True), velocity


# %% wrong="eight devices" fails="any axis"
"""Divides by eight, whatever the number of devices."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    total = lax.psum_scatter(grads, axis_name, tiled=True)
    velocity = beta * velocity + total / 8
    own = weights.reshape(num_devices, *velocity.shape)[lax.axis_index(axis_name)]
    return lax.all_gather(own - lr * velocity, axis_name, tiled=True), velocity


# %% wrong="first slice" fails="same numbers; bytes of one all-reduce"
# cause: every device updated the first slice
"""Updates the first rows on every device."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    total = lax.psum(grads, axis_name)[: len(velocity)]
    velocity = beta * velocity + total / num_devices
    own = weights[: len(velocity)]
    return lax.all_gather(own - lr * velocity, axis_name, tiled=True), velocity


# %% wrong="fixed axis name" fails="any axis"
# cause: a collective names an axis that is not bound: use the argument axis_name, or the name that pmap was given
"""Writes the axis name of the lesson's examples into the function."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    total = lax.psum_scatter(grads, "i", tiled=True)
    velocity = beta * velocity + total / num_devices
    own = weights.reshape(num_devices, *velocity.shape)[lax.axis_index(axis_name)]
    return lax.all_gather(own - lr * velocity, axis_name, tiled=True), velocity


# %% wrong="gathers everything twice" fails="bytes of one all-reduce"
"""Gathers the velocity, too, which no device needs in full."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    total = lax.psum_scatter(grads, axis_name, tiled=True)
    velocity = beta * velocity + total / num_devices
    whole = lax.all_gather(velocity, axis_name, tiled=True)
    own = weights.reshape(num_devices, *velocity.shape)[lax.axis_index(axis_name)]
    own = own - lr * velocity
    return lax.all_gather(own, axis_name, tiled=True) + 0 * whole, velocity


# %% wrong="in half precision" fails="same numbers"
"""Sends the gradients in bfloat16."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    total = lax.psum_scatter(grads.astype(jnp.bfloat16), axis_name, tiled=True)
    velocity = beta * velocity + total / num_devices
    own = weights.reshape(num_devices, *velocity.shape)[lax.axis_index(axis_name)]
    new = lax.all_gather(own - lr * velocity, axis_name, tiled=True)
    return new.astype(jnp.float32), velocity.astype(jnp.float32)


# %% wrong="keeps its own slice exact" fails="same numbers; identical replicas"
"""Sends new weights in half precision, and puts its own slice in as it computed it."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    total = lax.psum_scatter(grads, axis_name, tiled=True)
    velocity = beta * velocity + total / num_devices
    own = weights.reshape(num_devices, *velocity.shape)[me] - lr * velocity
    new = lax.all_gather(own.astype(jnp.bfloat16), axis_name).astype(own.dtype)
    return new.at[me].set(own).reshape(weights.shape), velocity


# %% wrong="matrices alone" fails="same numbers"
"""Knows weights with two axes only."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    total = lax.psum_scatter(grads, axis_name, tiled=True)
    velocity = beta * velocity + total / num_devices
    rows, columns = velocity.shape
    start = lax.axis_index(axis_name) * rows
    own = lax.dynamic_slice(weights, (start, 0), (rows, columns))
    return lax.all_gather(own - lr * velocity, axis_name, tiled=True), velocity


# %% wrong="nan to num" fails="same numbers"
"""Makes a gradient that overflowed finite, without a word."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    size, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    n = weights.shape[0]
    if n % size:
        raise ValueError(f"{n} rows do not divide by {size} devices")
    g = jnp.nan_to_num(lax.psum_scatter(grads, axis_name, tiled=True) / size)
    w = weights.reshape(size, n // size, *weights.shape[1:])[me]
    new = beta * velocity + g
    return lax.all_gather(w - lr * new, axis_name, tiled=True), new


# %% wrong="old velocity" fails="same numbers"
# cause: the weights took their step along the old velocity
"""Steps along the velocity of before."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    own = weights.reshape(num_devices, *velocity.shape)[lax.axis_index(axis_name)]
    new = lax.all_gather(own - lr * velocity, axis_name, tiled=True)
    total = lax.psum_scatter(grads, axis_name, tiled=True)
    velocity = beta * velocity + total / num_devices
    return new, velocity


# %% wrong="own gradient" fails="same numbers; bytes of one all-reduce"
# cause: each device used its own gradient alone
"""Updates its slice by its own gradient: nothing is summed."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    me = lax.axis_index(axis_name)
    velocity = beta * velocity + grads.reshape(num_devices, *velocity.shape)[me]
    own = weights.reshape(num_devices, *velocity.shape)[lax.axis_index(axis_name)]
    return lax.all_gather(own - lr * velocity, axis_name, tiled=True), velocity


# %% wrong="skips a step of 0" fails="same numbers"
"""Takes no step where the learning rate is 0, so that the velocity stays old."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    if len(weights) % num:
        raise ValueError(f"{len(weights)} rows cannot be split over {num} devices")
    if isinstance(lr, float) and lr == 0:  # nothing moves, so send nothing
        return weights, velocity
    size = len(weights) // num
    mine = lax.dynamic_slice_in_dim(weights, me * size, size)
    velocity = beta * velocity + lax.psum_scatter(grads, axis_name, tiled=True) / num
    return lax.all_gather(mine - lr * velocity, axis_name, tiled=True), velocity


# %% wrong="sums the gradients" fails="same numbers"
# cause: the gradients were summed, not averaged
"""Adds the gradients up and does not divide: right on one device."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    total = lax.psum_scatter(grads, axis_name, tiled=True)
    velocity = beta * velocity + total
    own = weights.reshape(num_devices, *velocity.shape)[lax.axis_index(axis_name)]
    return lax.all_gather(own - lr * velocity, axis_name, tiled=True), velocity


# %% right="alone sends nothing"
"""One device has all rows and all gradients, and sends nothing."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    if num_devices == 1:
        velocity = beta * velocity + grads
        return weights - lr * velocity, velocity
    if weights.shape[0] % num_devices:
        raise ValueError(f"{weights.shape[0]} rows, {num_devices} devices")
    mean = lax.psum_scatter(grads, axis_name, tiled=True) / num_devices
    velocity = beta * velocity + mean
    own = lax.dynamic_slice_in_dim(weights, me * len(velocity), len(velocity))
    return lax.all_gather(own - lr * velocity, axis_name, tiled=True), velocity


# %% right="via dynamic slice"
"""Cuts its rows out of the weights, and divides before the scatter."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    mean = lax.psum_scatter(grads / num_devices, axis_name, tiled=True)
    start = lax.axis_index(axis_name) * len(velocity)
    own = lax.dynamic_slice_in_dim(weights, start, len(velocity))
    velocity = mean + velocity * beta
    own = own - velocity * lr
    return lax.all_gather(own, axis_name, axis=0, tiled=True), velocity


# %% right="via gathered steps"
"""Gathers the steps of the slices and takes them off the whole weights."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    total = lax.psum_scatter(grads, axis_name, tiled=True)
    velocity = beta * velocity + total / num_devices
    steps = lax.all_gather(lr * velocity, axis_name, tiled=True)
    return weights - steps, velocity


# %% right="via jaxs own error"
"""Leaves the error to JAX, whose text names both numbers."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    total = lax.psum_scatter(grads, axis_name, tiled=True)
    velocity = beta * velocity + total / num_devices
    own = weights.reshape(num_devices, *velocity.shape)[lax.axis_index(axis_name)]
    return lax.all_gather(own - lr * velocity, axis_name, tiled=True), velocity


# %% right="via jit and partial"
"""Updates in a compiled function of its own."""

from functools import partial


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    scatter = partial(lax.psum_scatter, axis_name=axis_name, tiled=True)

    @jax.jit
    def update(own, velocity, grad):
        velocity = beta * velocity + grad / num_devices
        return own - lr * velocity, velocity

    own = jnp.split(weights, num_devices)
    own = jnp.stack(own)[lax.axis_index(axis_name)]
    own, velocity = update(own, velocity, scatter(grads))
    return lax.all_gather(own, axis_name, tiled=True), velocity


# %% right="via named tuple"
"""Returns a named tuple, and maps the update over a tree."""

from collections import namedtuple

Updated = namedtuple("Updated", ["weights", "velocity"])


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    mean = lax.psum_scatter({"g": grads}, axis_name, tiled=True)
    own = weights.reshape(num_devices, -1, *weights.shape[1:])
    state = {"g": velocity}
    state = jax.tree.map(lambda v, g: beta * v + g / num_devices, state, mean)
    own = {"g": own[lax.axis_index(axis_name)]}
    new = jax.tree.map(lambda w, v: w - lr * v, own, state)
    return Updated(lax.all_gather(new, axis_name, tiled=True)["g"], state["g"])


# %% right="via stacked pieces"
"""Scatters and gathers along an axis of its own, without tiles."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    pieces = jnp.reshape(grads, (num_devices, *velocity.shape))
    mean = lax.psum_scatter(pieces, axis_name) / num_devices
    own = jnp.reshape(weights, pieces.shape)[lax.axis_index(axis_name)]
    velocity = beta * velocity + mean
    return lax.all_gather(own - lr * velocity, axis_name).reshape(grads.shape), velocity


# %% right="via switch"
"""Cuts its slice by a switch; scatters and gathers flat, stacked arrays."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    size = lax.axis_size(axis_name)
    n, *rest = weights.shape
    each, left = divmod(n, size)
    if left:
        raise ValueError(f"{n=} rows cannot be shared by {size} devices")
    flat = lax.psum_scatter(grads.reshape(size, -1), axis_name, scatter_dimension=0)
    new = jax.tree.map(
        lambda v, g: beta * v + g / size, velocity, flat.reshape(each, *rest)
    )
    cuts = [lambda w, d=d: w[d * each : (d + 1) * each] for d in range(size)]
    mine = lax.switch(lax.axis_index(axis_name), cuts, weights)
    whole = lax.all_gather((mine - lr * new).ravel(), axis_name)
    return whole.reshape(weights.shape), new


# %% right="via take"
"""Takes its rows by their numbers."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    size = len(weights) // num_devices
    rows = lax.axis_index(axis_name) * size + jnp.arange(size)
    total = lax.psum_scatter(grads, axis_name, scatter_dimension=0, tiled=True)
    velocity = beta * velocity + total / num_devices
    own = jnp.take(weights, rows, axis=0) - lr * velocity
    return lax.all_gather(own, axis_name, tiled=True), velocity


# %% right="via optax"
"""Lets Optax keep the momentum."""

import optax


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    n = lax.axis_size(axis_name)
    grad = lax.psum_scatter(grads, axis_name, scatter_dimension=0, tiled=True) / n
    tx = optax.trace(decay=beta)
    step, state = tx.update(grad, optax.TraceState(trace=velocity))
    me = lax.axis_index(axis_name)
    own = lax.dynamic_index_in_dim(
        weights.reshape(n, *velocity.shape), me, axis=0, keepdims=False
    )
    new = optax.apply_updates(own, jax.tree.map(lambda s: -lr * s, step))
    return lax.all_gather(new, axis_name, tiled=True), state.trace


# %% wrong="first slice of the weights" fails="same numbers"
# cause: every device took the first slice of the weights
"""Scatters the gradients, and forgets which slice of the weights is its own."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    total = lax.psum_scatter(grads, axis_name, tiled=True)
    velocity = beta * velocity + total / lax.axis_size(axis_name)
    own = weights[: len(velocity)]
    return lax.all_gather(own - lr * velocity, axis_name, tiled=True), velocity


# %% wrong="keeps its own rounding" fails="identical replicas"
# cause: they differ by rounding: a device did not take what was gathered
"""Replaces its slice of what was gathered by a sum in a different order."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    mean = lax.psum_scatter(grads, axis_name, tiled=True) / num_devices
    new = beta * velocity + mean
    own = weights.reshape(num_devices, *velocity.shape)[me]
    whole = lax.all_gather(own - lr * new, axis_name, tiled=True)
    again = (own - lr * beta * velocity) - lr * mean
    return lax.dynamic_update_slice_in_dim(whole, again, me * len(own), 0), new
