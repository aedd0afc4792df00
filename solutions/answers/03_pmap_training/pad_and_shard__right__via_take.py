"""Gathers rows by number, and multiplies by the mask."""


def pad_and_shard(batch, num_devices):
    num_rows = {len(leaf) for leaf in jax.tree.leaves(batch)}.pop()
    if not num_rows:
        raise ValueError("an empty batch")
    rows = np.arange(int(np.ceil(num_rows / num_devices)) * num_devices)
    rows = rows.reshape(num_devices, -1)
    mask = rows < num_rows

    def take(a):
        block = np.array(a[np.minimum(rows, num_rows - 1)])
        block[~mask] = 0
        return block

    return jax.tree.map(take, batch), mask


def weighted_loss(params, x, y, mask, axis_name):
    count = jax.lax.psum(jnp.sum(mask.astype(jnp.float32)), axis_name)
    errors = jnp.square(mlp(params, x) - y)
    return jnp.sum(errors * mask) / count
