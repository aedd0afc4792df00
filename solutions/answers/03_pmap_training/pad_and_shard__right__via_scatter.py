"""Sets the rows into an array of zeros, and scans over a device's rows."""

from functools import partial


def spread(shape, leaf):
    target = jnp.zeros((shape[0] * shape[1], *leaf.shape[1:]), leaf.dtype)
    return target.at[: len(leaf)].set(leaf).reshape(*shape, *leaf.shape[1:])


def pad_and_shard(batch, num_devices):
    first, *_ = jax.tree.leaves(batch)
    if first.size == 0 and first.shape[0] == 0:
        raise ValueError(f"nothing to give to {num_devices} devices")
    put = partial(spread, (num_devices, 1 + (len(first) - 1) // num_devices))
    return jax.tree.map(put, batch), put(np.ones(len(first), dtype=bool))


def weighted_loss(params, x, y, mask, axis_name):
    def observe(total, row):
        x, y, counts = row
        error = jax.lax.square(mlp(params, x[None]) - y)[0]
        return total + jax.lax.select(counts, error, jnp.zeros_like(error)), None

    zero = jnp.zeros(()) * y[0]
    total, _ = jax.lax.scan(observe, zero, (x, y, mask))
    return total / jnp.sum(jax.lax.all_gather(mask, axis_name))
