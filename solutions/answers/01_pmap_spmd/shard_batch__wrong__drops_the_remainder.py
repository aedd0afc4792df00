"""Throws away the rows that do not fit instead of refusing them.

Told: none
Fails: uneven rows raise
"""


def shard_batch(batch, num_devices):
    def split(x):
        rows = len(x) // num_devices
        return x[: rows * num_devices].reshape(num_devices, rows, *x.shape[1:])

    return jax.tree.map(split, batch)
