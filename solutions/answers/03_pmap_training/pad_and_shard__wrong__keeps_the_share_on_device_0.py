"""Lets device 0 return the whole mean and all others nothing: it adds up, but no device
has its own share.

Told: none
Fails: a device's share; gradients add up
"""


def pad_and_shard(batch, num_devices):
    num_rows = len(jax.tree.leaves(batch)[0])
    if num_rows == 0:
        raise ValueError("the batch has no rows")
    per_device = -(-num_rows // num_devices)

    def split(a):
        padded = pad_rows(a, num_devices * per_device)
        return padded.reshape(num_devices, per_device, *a.shape[1:])

    return jax.tree.map(split, batch), split(np.ones(num_rows, bool))


def weighted_loss(params, x, y, mask, axis_name):
    x, y, mask = jax.lax.all_gather((x, y, mask), axis_name, tiled=True)
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    first = jax.lax.axis_index(axis_name) == 0
    return jnp.where(first, errors.sum() / mask.sum(), 0)
