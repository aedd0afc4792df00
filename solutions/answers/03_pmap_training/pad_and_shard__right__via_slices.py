"""Cuts each device's block out by itself, in loops over plain lists."""


def check(batch):
    count = max(np.shape(leaf)[0] for leaf in jax.tree_util.tree_leaves(batch))
    if not count > 0:
        raise ValueError("no rows")
    return count


def pad_and_shard(batch, num_devices):
    rows = check(batch)
    size, rest = divmod(rows, num_devices)
    size += rest > 0

    def expect(leaf):
        blocks = []
        for device in range(num_devices):
            block = np.zeros((size, *leaf.shape[1:]), leaf.dtype)
            own = leaf[device * size : (device + 1) * size]
            block[: len(own)] = own
            blocks.append(block)
        return np.stack(blocks)

    mask = [[d * size + k < rows for k in range(size)] for d in range(num_devices)]
    return jax.tree_util.tree_map(expect, batch), np.array(mask)


def weighted_loss(params, x, y, mask, axis_name):
    def take(row, target, counts):
        gap = mlp(params, row[None])[0] - target
        return jnp.where(counts, gap**2, 0.0)

    every = jax.lax.psum(jnp.count_nonzero(mask), axis_name)
    return jax.vmap(take)(x, y, mask).sum() / every
