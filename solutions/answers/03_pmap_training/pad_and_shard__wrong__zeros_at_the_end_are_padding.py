"""Takes true rows of zeros at the end for padding.

Told: none
Fails: the mask
"""


def pad_and_shard(batch, num_devices):
    leaves, treedef = jax.tree.flatten(batch)
    num_rows = len(leaves[0])
    if num_rows == 0:
        raise ValueError("the batch has no rows")
    k = -(-num_rows // num_devices)
    padded = [pad_rows(np.asarray(leaf), k * num_devices) for leaf in leaves]
    used = sum((leaf != 0).reshape(len(leaf), -1).any(axis=1) for leaf in padded) > 0
    last = len(used) - np.argmax(used[::-1])  # padding: the zeros at the end
    mask = np.arange(len(used)) < last
    blocks = [leaf.reshape(num_devices, k, *leaf.shape[1:]) for leaf in padded]
    return jax.tree.unflatten(treedef, blocks), mask.reshape(num_devices, k)


def weighted_loss(params, x, y, mask, axis_name):
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / jax.lax.psum(mask.sum(), axis_name)
