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
