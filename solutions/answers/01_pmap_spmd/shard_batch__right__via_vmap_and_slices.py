"""Slices on the device, with helpers that are called as the course's own."""


def check(size, num_devices):
    if size % num_devices:
        raise ValueError(f"{size} is no multiple of {num_devices}")


def take(x, num_devices):
    check(x.shape[0], num_devices)
    rows = x.shape[0] // num_devices
    starts = rows * jnp.arange(num_devices)
    x = jnp.asarray(x)
    return jax.vmap(lambda start: jax.lax.dynamic_slice_in_dim(x, start, rows))(starts)


def shard_batch(batch, num_devices):
    return jax.tree.map(lambda x: take(x, num_devices), batch)
