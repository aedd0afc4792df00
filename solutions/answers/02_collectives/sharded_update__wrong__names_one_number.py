"""Says in the error how many rows, and not how many devices.

Told: none
Fails: rows that do not divide
"""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows do not divide")
    total = lax.psum_scatter(grads, axis_name, tiled=True)
    velocity = beta * velocity + total / num_devices
    own = weights.reshape(num_devices, *velocity.shape)[lax.axis_index(axis_name)]
    return lax.all_gather(own - lr * velocity, axis_name, tiled=True), velocity
