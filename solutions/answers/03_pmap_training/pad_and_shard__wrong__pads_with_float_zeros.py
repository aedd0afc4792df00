"""Appends float64 zeros, which turn integer labels and pixels into floats.

Told: none
Fails: rows of zeros; the mask; order and dtypes stay
"""


def pad_and_shard(batch, num_devices):
    num_rows = len(jax.tree.leaves(batch)[0])
    if num_rows == 0:
        raise ValueError("the batch has no rows")
    missing = -num_rows % num_devices

    def split(a):
        padded = np.concatenate([a, np.zeros((missing, *a.shape[1:]))])
        return padded.reshape(num_devices, -1, *a.shape[1:])

    return jax.tree.map(split, batch), split(np.ones(num_rows)) > 0


def weighted_loss(params, x, y, mask, axis_name):
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / jax.lax.psum(mask.sum(), axis_name)
