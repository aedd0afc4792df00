"""Pads flattened leaves with jnp.pad, and weighs errors by einsum."""


class Shards:
    def __init__(self, rows, devices):
        self.devices, self.missing = devices, (devices - rows % devices) % devices

    def start(self, leaf):
        wide = [(0, self.missing)] + [(0, 0)] * (leaf.ndim - 1)
        padded = jnp.pad(leaf, wide, constant_values=0)
        return jnp.stack(jnp.split(padded, self.devices))


def pad_and_shard(batch, num_devices):
    leaves, kind = jax.tree.flatten(batch)
    if leaves[0].shape[0] == 0:
        raise ValueError("an empty batch has no mean")
    shards = Shards(leaves[0].shape[0], num_devices)
    blocks = [shards.start(leaf) for leaf in leaves]
    mask = shards.start(jnp.full(leaves[0].shape[0], True))
    return kind.unflatten(blocks), mask


def weighted_loss(params, x, y, mask, axis_name):
    weights = mask / jax.lax.psum(mask.sum(), axis_name)
    errors = mlp(params, x) - y
    return jnp.einsum("k,k,k->", errors, errors, weights)
