"""Flattens the tree, checks all sizes first, and uses JAX's reshape."""


def shard_batch(batch, num_devices):
    arrays, tree = jax.tree.flatten(batch)
    for array in arrays:
        size = array.shape[0]
        if size % num_devices != 0:
            raise ValueError(f"batch size {size} is no multiple of {num_devices}")
    blocks = [jnp.reshape(a, (num_devices, -1, *a.shape[1:])) for a in arrays]
    return jax.tree.unflatten(tree, blocks)
