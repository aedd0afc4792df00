"""Counts true rows in f16: above 2,048 not every number is one of its.

Told: none
Fails: a device's share; gradients add up
"""


def pad_and_shard(batch, num_devices):
    num_rows = len(jax.tree.leaves(batch)[0])
    if num_rows == 0:
        raise ValueError("the batch has no rows")
    per_device = -(-num_rows // num_devices)

    def split(a):
        padded = pad_rows(np.asarray(a), per_device * num_devices)
        return padded.reshape(num_devices, per_device, *a.shape[1:])

    return jax.tree.map(split, batch), split(np.ones(num_rows, bool))


def weighted_loss(params, x, y, mask, axis_name):
    errors = jnp.where(mask, mlp(params, x) - y, 0)
    count = jax.lax.psum(jnp.sum(mask.astype(jnp.float16)), axis_name)
    return jnp.sum(errors**2) / count.astype(jnp.float32)
