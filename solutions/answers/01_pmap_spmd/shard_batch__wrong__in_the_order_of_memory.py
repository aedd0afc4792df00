"""Cuts an array as it lies in memory: one that lies by columns comes out mixed.

Told: none
Fails: order stays; dtypes stay
"""


def shard_batch(batch, num_devices):
    def split(leaf):
        if len(leaf) % num_devices:
            raise ValueError(f"{len(leaf)} rows, {num_devices} devices")
        shape = num_devices, len(leaf) // num_devices, *leaf.shape[1:]
        return np.reshape(leaf, shape, order="A")

    return jax.tree.map(split, batch)
