"""Puts the device axis second: (B / D, D, ...) instead of (D, B / D, ...).

Told: none
Fails: order stays; dtypes stay
"""


def shard_batch(batch, num_devices):
    def split(x):
        if len(x) % num_devices:
            raise ValueError(f"{len(x)} rows, {num_devices} devices")
        return x.reshape(len(x) // num_devices, num_devices, *x.shape[1:])

    return jax.tree.map(split, batch)
