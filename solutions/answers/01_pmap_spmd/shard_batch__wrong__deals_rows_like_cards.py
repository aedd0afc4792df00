"""Gives every eighth row to a device: right on one device, another order on eight.

Told: the rows were dealt out like cards, not cut in order
Fails: order stays
"""


def shard_batch(batch, num_devices):
    def split(x):
        if len(x) % num_devices:
            raise ValueError(f"{len(x)} rows, {num_devices} devices")
        return np.stack([x[device::num_devices] for device in range(num_devices)])

    return jax.tree.map(split, batch)
