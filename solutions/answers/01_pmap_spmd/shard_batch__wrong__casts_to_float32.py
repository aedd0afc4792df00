"""Turns labels and pixels into floats on the way.

Told: none
Fails: order stays; dtypes stay
"""


def shard_batch(batch, num_devices):
    def split(x):
        if len(x) % num_devices:
            raise ValueError(f"{len(x)} rows, {num_devices} devices")
        x = jnp.asarray(x, dtype=jnp.float32)
        return x.reshape(num_devices, len(x) // num_devices, *x.shape[1:])

    return jax.tree.map(split, batch)
