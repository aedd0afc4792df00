"""Lets reshape complain: its text names the number of elements, not of rows.

Told: reshape raised this: test whether B divides before you reshape
Fails: uneven rows raise
"""


def shard_batch(batch, num_devices):
    return jax.tree.map(
        lambda x: x.reshape(num_devices, len(x) // num_devices, *x.shape[1:]), batch
    )
