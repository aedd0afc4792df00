"""Takes every array for rows of features: a third axis is flattened.

Told: none
Fails: order stays; dtypes stay
"""


def shard_batch(batch, num_devices):
    def split(x):
        if len(x) % num_devices:
            raise ValueError(f"{len(x)} rows, {num_devices} devices")
        if x.ndim == 1:
            return x.reshape(num_devices, -1)
        return x.reshape(num_devices, len(x) // num_devices, -1)

    return jax.tree.map(split, batch)
