"""Tests for powers of two, as if devices came in no other number.

Told: none
Fails: order stays; dtypes stay
"""


def shard_batch(batch, num_devices):
    def split(x):
        if len(x) % num_devices or num_devices & (num_devices - 1):
            raise ValueError(f"{len(x)} rows, {num_devices} devices")
        return x.reshape(num_devices, len(x) // num_devices, *x.shape[1:])

    return jax.tree.map(split, batch)
