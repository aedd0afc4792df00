"""Leaves a size to reshape: arrays without numbers raise.

Told: none
"""


def shard_batch(batch, num_devices):
    def cut(x):
        if x.shape[0] % num_devices:
            raise ValueError(f"{x.shape[0]} rows cannot be cut into {num_devices}")
        return x.reshape(num_devices, -1, *x.shape[1:])

    return jax.tree.map(cut, batch)
