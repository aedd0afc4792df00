"""Joins the orders of all epochs that a batch touches, and cuts the batch out."""

import math


def batches(data, batch_size, sharding, seed, start_step):
    axes = sharding.spec[0] if sharding.spec else ()
    axes = (axes,) if isinstance(axes, str) else axes or ()
    parts = math.prod(sharding.mesh.shape[axis] for axis in axes)
    if batch_size % parts:
        raise ValueError(f"{batch_size} rows do not divide into {parts} parts")

    def ready(step):
        start, stop, size = step * batch_size, (step + 1) * batch_size, len(data[0])
        first, last = start // size, (stop - 1) // size
        orders = [epoch_order(seed, epoch, size) for epoch in range(first, last + 1)]
        rows = np.concatenate(orders)[start - first * size : stop - first * size]
        return jax.tree.map(lambda array: place(array[rows], sharding), data)

    step, ahead = start_step, ready(start_step)
    while True:
        step, now, ahead = step + 1, ahead, ready(step + 1)
        yield now
