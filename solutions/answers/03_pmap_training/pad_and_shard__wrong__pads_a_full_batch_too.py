"""Adds a row to each device even where the batch divides.

Told: none
Fails: rows of zeros; the mask; order and dtypes stay
"""


def pad_and_shard(batch, num_devices):
    num_rows = len(jax.tree.leaves(batch)[0])
    if num_rows == 0:
        raise ValueError("the batch has no rows")
    per_device = num_rows // num_devices + 1

    def split(a):
        padded = pad_rows(a, num_devices * per_device)
        return padded.reshape(num_devices, per_device, *a.shape[1:])

    return jax.tree.map(split, batch), split(np.ones(num_rows, bool))


def weighted_loss(params, x, y, mask, axis_name):
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / jax.lax.psum(mask.sum(), axis_name)
