# %% wrong="casts to float32" fails="same structure"
"""Turns labels and pixels into floats on the way."""


def shard_batch(batch, num_devices):
    def split(x):
        if len(x) % num_devices:
            raise ValueError(f"{len(x)} rows, {num_devices} devices")
        x = jnp.asarray(x, dtype=jnp.float32)
        return x.reshape(num_devices, len(x) // num_devices, *x.shape[1:])

    return jax.tree.map(split, batch)


# %% wrong="deals rows like cards" fails="rows in order"
# cause: the rows were dealt out like cards, not cut in order
"""Gives every eighth row to a device: right on one device, another order on eight."""


def shard_batch(batch, num_devices):
    def split(x):
        if len(x) % num_devices:
            raise ValueError(f"{len(x)} rows, {num_devices} devices")
        return np.stack([x[device::num_devices] for device in range(num_devices)])

    return jax.tree.map(split, batch)


# %% wrong="drops the remainder" fails="uneven batch"
"""Throws away the rows that do not fit instead of refusing them."""


def shard_batch(batch, num_devices):
    def split(x):
        rows = len(x) // num_devices
        return x[: rows * num_devices].reshape(num_devices, rows, *x.shape[1:])

    return jax.tree.map(split, batch)


# %% wrong="flat dicts only" fails="rows in order; same structure"
"""Takes every batch for a flat dict: nested trees and bare arrays fail."""


def shard_batch(batch, num_devices):
    def split(x):
        if len(x) % num_devices:
            raise ValueError(f"{len(x)} rows, {num_devices} devices")
        return x.reshape(num_devices, len(x) // num_devices, *x.shape[1:])

    return {name: split(x) for name, x in batch.items()}


# %% wrong="needs two axes" fails="rows in order"
"""Takes every array for rows of features: a third axis is flattened."""


def shard_batch(batch, num_devices):
    def split(x):
        if len(x) % num_devices:
            raise ValueError(f"{len(x)} rows, {num_devices} devices")
        if x.ndim == 1:
            return x.reshape(num_devices, -1)
        return x.reshape(num_devices, len(x) // num_devices, -1)

    return jax.tree.map(split, batch)


# %% wrong="refuses odd batches" fails="rows in order"
"""Tests for powers of two, as if devices came in no other number."""


def shard_batch(batch, num_devices):
    def split(x):
        if len(x) % num_devices or num_devices & (num_devices - 1):
            raise ValueError(f"{len(x)} rows, {num_devices} devices")
        return x.reshape(num_devices, len(x) // num_devices, *x.shape[1:])

    return jax.tree.map(split, batch)


# %% wrong="splits inside each row block" fails="rows in order"
"""Puts the device axis second: (B / D, D, ...) instead of (D, B / D, ...)."""


def shard_batch(batch, num_devices):
    def split(x):
        if len(x) % num_devices:
            raise ValueError(f"{len(x)} rows, {num_devices} devices")
        return x.reshape(len(x) // num_devices, num_devices, *x.shape[1:])

    return jax.tree.map(split, batch)


# %% wrong="tuples become lists" fails="same structure"
"""Returns a list where the batch has a tuple."""


def shard_batch(batch, num_devices):
    if isinstance(batch, dict):
        return {name: shard_batch(part, num_devices) for name, part in batch.items()}
    if isinstance(batch, list | tuple):
        return [shard_batch(part, num_devices) for part in batch]
    if batch is None:
        return None
    if len(batch) % num_devices:
        raise ValueError(f"{len(batch)} rows, {num_devices} devices")
    return batch.reshape(num_devices, len(batch) // num_devices, *batch.shape[1:])


# %% right="via a table of rows"
"""Looks rows up by a table of their numbers."""


def shard_batch(batch, num_devices):
    def cut(path, x):
        if x.shape[0] % num_devices != 0:
            where = jax.tree_util.keystr(path)
            raise ValueError(f"batch{where}: {x.shape[0]} rows over {num_devices}")
        return x[np.arange(x.shape[0]).reshape(num_devices, -1)]

    return jax.tree_util.tree_map_with_path(cut, batch)


# %% right="via flattened tree"
"""Flattens the tree, checks all sizes first, and uses JAX's reshape."""


def shard_batch(batch, num_devices):
    arrays, tree = jax.tree.flatten(batch)
    for array in arrays:
        size = array.shape[0]
        if size % num_devices != 0:
            raise ValueError(f"batch size {size} is no multiple of {num_devices}")
    blocks = [jnp.reshape(a, (num_devices, -1, *a.shape[1:])) for a in arrays]
    return jax.tree.unflatten(tree, blocks)


# %% right="via numpy split"
"""Lets NumPy split, and stacks the pieces."""


def shard_batch(batch, num_devices):
    sizes = {leaf.shape[0] for leaf in jax.tree_util.tree_leaves(batch)}
    for size in sizes:
        if size / num_devices != size // num_devices:
            raise ValueError(f"B = {size}, devices = {num_devices}")
    return jax.tree_util.tree_map(
        lambda leaf: np.stack(np.split(np.asarray(leaf), num_devices, axis=0)), batch
    )


# %% right="via recursion"
"""Walks through dicts, lists and tuples itself."""


def shard_batch(batch, num_devices):
    if batch is None:
        return None
    if isinstance(batch, dict):
        return {name: shard_batch(part, num_devices) for name, part in batch.items()}
    if isinstance(batch, list | tuple):
        parts = [shard_batch(part, num_devices) for part in batch]
        is_named = hasattr(batch, "_fields")
        return type(batch)(*parts) if is_named else type(batch)(parts)
    rows, rest = divmod(batch.shape[0], num_devices)
    if rest:
        raise ValueError(f"{batch.shape[0]} rows, {num_devices} devices: {rest} left")
    return batch.reshape((num_devices, rows, *batch.shape[1:]))


# %% right="via stacked slices"
"""Cuts slices and stacks them."""


def shard_batch(batch, num_devices):
    def split(x):
        rows, rest = divmod(x.shape[0], num_devices)
        if rest:
            raise ValueError(f"cannot split {x.shape[0]} rows over {num_devices}")
        return np.stack([x[d * rows : (d + 1) * rows] for d in range(num_devices)])

    return jax.tree.map(split, batch)


# %% right="via three kinds of containers"
"""Rebuilds each dict, list and tuple as a plain one."""


def shard_batch(batch, num_devices):
    if isinstance(batch, dict):
        return {name: shard_batch(part, num_devices) for name, part in batch.items()}
    if isinstance(batch, list):
        return [shard_batch(part, num_devices) for part in batch]
    if isinstance(batch, tuple):
        return tuple(shard_batch(part, num_devices) for part in batch)
    if batch is None:
        return None
    if len(batch) % num_devices:
        raise ValueError(f"{len(batch)} rows, {num_devices} devices")
    return batch.reshape(num_devices, len(batch) // num_devices, *batch.shape[1:])


# %% right="via vmap and slices"
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


# %% right="via jnp"
"""Reshapes by jnp, which makes int64 int32, as pmap does on the way to the devices."""


def shard_batch(batch, num_devices):
    def split(x):
        if len(x) % num_devices:
            raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")
        rows = len(x) // num_devices
        return jnp.asarray(x).reshape(num_devices, rows, *x.shape[1:])

    return jax.tree.map(split, batch)


# %% wrong="leaves the error to reshape" fails="uneven batch"
"""Reshapes with a -1: NumPy raises a ValueError, and JAX a TypeError."""


def shard_batch(batch, num_devices):
    def split(x):
        return x.reshape(num_devices, -1, *x.shape[1:])

    return jax.tree.map(split, batch)


# %% wrong="cuts for all devices" fails="rows in order"
"""Cuts for the devices that there are, not for as many as it is told."""


def shard_batch(batch, num_devices):
    n = jax.device_count()

    def split(x):
        if len(x) % n:
            raise ValueError(f"{len(x)} rows, {n} devices")
        return x.reshape(n, len(x) // n, *x.shape[1:])

    return jax.tree.map(split, batch)


# %% wrong="places the blocks" fails="rows in order"
"""Puts each block on a device at once: not more blocks than there are devices."""


def shard_batch(batch, num_devices):
    def split(x):
        if len(x) % num_devices:
            raise ValueError(f"{len(x)} rows, {num_devices} devices")
        blocks = x.reshape(num_devices, len(x) // num_devices, *x.shape[1:])
        rows = jax.sharding.NamedSharding(make_mesh(num_devices), P("devices"))
        return jax.device_put(blocks, rows)

    return jax.tree.map(split, batch)
