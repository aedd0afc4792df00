"""Calls every row of zeros padding, a true one too.

Told: a true row of zeros was taken for padding
Fails: the mask
"""


def pad_and_shard(batch, num_devices):
    num_rows = len(jax.tree.leaves(batch)[0])
    if num_rows == 0:
        raise ValueError("the batch has no rows")
    per_device = -(-num_rows // num_devices)

    def split(a):
        padded = pad_rows(a, num_devices * per_device)
        return padded.reshape(num_devices, per_device, *a.shape[1:])

    batch = jax.tree.map(split, batch)
    first = jax.tree.leaves(batch)[0]
    return batch, np.any(first.reshape(*first.shape[:2], -1) != 0, axis=-1)


def weighted_loss(params, x, y, mask, axis_name):
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / jax.lax.psum(mask.sum(), axis_name)
