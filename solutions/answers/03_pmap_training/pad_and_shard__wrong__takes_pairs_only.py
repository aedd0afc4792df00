"""Unpacks the batch as the pair that it is in training: other trees fail.

Told: none
Fails: rows of zeros
"""


def pad_and_shard(batch, num_devices):
    x, y = batch
    if len(x) == 0:
        raise ValueError("the batch has no rows")
    per_device = -(-len(x) // num_devices)

    def split(a):
        padded = pad_rows(a, num_devices * per_device)
        return padded.reshape(num_devices, per_device, *a.shape[1:])

    return (split(x), split(y)), split(np.ones(len(x), bool))


def weighted_loss(params, x, y, mask, axis_name):
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / jax.lax.psum(mask.sum(), axis_name)
