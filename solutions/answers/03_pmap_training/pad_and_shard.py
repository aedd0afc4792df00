# %% wrong="byte count" fails="share of the mean"
"""Counts true rows in 8 bits: more than 255 on all devices begin again at 0."""


def pad_and_shard(batch, num_devices):
    rows = len(jax.tree.leaves(batch)[0])
    if rows == 0:
        raise ValueError("the batch is empty")
    k = -(-rows // num_devices)

    def split(a):
        a = np.asarray(a)
        return pad_rows(a, k * num_devices).reshape(num_devices, k, *a.shape[1:])

    return jax.tree.map(split, batch), split(np.ones(rows, bool))


def weighted_loss(params, x, y, mask, axis_name):
    count = jax.lax.psum(jnp.sum(mask, dtype=jnp.uint8), axis_name)
    return jnp.sum(jnp.where(mask, (mlp(params, x) - y) ** 2, 0)) / count


# %% wrong="counts in bfloat16" fails="share of the mean"
"""Counts true rows in bfloat16: of 301 it makes another number."""


def pad_and_shard(batch, num_devices):
    num_rows = len(jax.tree.leaves(batch)[0])
    if not num_rows:
        raise ValueError("no rows")
    size = -(-num_rows // num_devices) * num_devices

    def split(leaf):
        return pad_rows(leaf, size).reshape(num_devices, -1, *leaf.shape[1:])

    return jax.tree.map(split, batch), split(np.ones(num_rows, bool))


def weighted_loss(params, x, y, mask, axis_name):
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    count = jax.lax.psum(mask.astype(jnp.bfloat16).sum(), axis_name)
    return errors.sum() / count.astype(jnp.float32)


# %% wrong="counts in f16" fails="share of the mean"
"""Counts true rows in f16: above 2,048 not every number is one of its."""


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


# %% wrong="counts the padding" fails="share of the mean; gradients add up; padding does not matter"
# cause: masked rows were counted like true ones
"""Takes the mean over all rows, padding included."""


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
    return jnp.mean((mlp(params, x) - y) ** 2) / jax.lax.psum(1, axis_name)


# %% wrong="deletes the batch" fails="arguments stay"
"""Frees the batch once it was copied, though its owner may still need it."""


def pad_and_shard(batch, num_devices):
    num_rows = len(jax.tree.leaves(batch)[0])
    if num_rows == 0:
        raise ValueError("the batch has no rows")
    per_device = -(-num_rows // num_devices)

    def split(a):
        padded = pad_rows(a, num_devices * per_device)
        split = np.array(padded.reshape(num_devices, per_device, *a.shape[1:]))
        if isinstance(a, jax.Array):
            a.delete()
        return split

    return jax.tree.map(split, batch), split(np.ones(num_rows, bool))


def weighted_loss(params, x, y, mask, axis_name):
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / jax.lax.psum(mask.sum(), axis_name)


# %% wrong="drops the remainder" fails="padded and split; mask"
"""Lets the last rows fall under the table."""


def pad_and_shard(batch, num_devices):
    num_rows = len(jax.tree.leaves(batch)[0])
    if num_rows == 0:
        raise ValueError("the batch has no rows")
    per_device = num_rows // num_devices

    def split(a):
        kept = a[: num_devices * per_device]
        return kept.reshape(num_devices, per_device, *a.shape[1:])

    return jax.tree.map(split, batch), split(np.ones(num_rows, bool))


def weighted_loss(params, x, y, mask, axis_name):
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / jax.lax.psum(mask.sum(), axis_name)


# %% wrong="keeps the share on device 0" fails="share of the mean"
"""Lets device 0 return the whole mean and all others nothing: it adds up, but no device
has its own share.
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


# %% wrong="knows one axis name" fails="share of the mean"
# cause: a collective names an axis that is not bound: use the argument axis_name, or the name that pmap was given
"""Writes the axis name of one example into the collective."""


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
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / jax.lax.psum(mask.sum(), "i")


# %% wrong="knows the number of rows" fails="share of the mean"
"""Divides by the thirteen rows of one example."""


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
    return jnp.where(mask, (mlp(params, x) - y) ** 2, 0).sum() / 13


# %% wrong="masks by the inputs" fails="share of the mean; gradients add up; padding does not matter"
"""Ignores the mask and takes rows of zeros for padding."""


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
    mask = jnp.any(x != 0, axis=-1)
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / jax.lax.psum(mask.sum(), axis_name)


# %% wrong="mean of the devices means" fails="share of the mean; gradients add up"
# cause: that is nan, as 0 / 0 is: device 7 has no true row
"""Divides by the device's own count: a device without rows gives 0 / 0, and devices
with fewer rows count too much. Right on one device.
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
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / mask.sum() / jax.lax.psum(1, axis_name)


# %% wrong="never masks the errors" fails="share of the mean; gradients add up; padding does not matter"
# cause: masked rows were added up
"""Divides by the true rows but adds up all: right as long as padding has no error."""


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
    errors = (mlp(params, x) - y) ** 2
    return errors.sum() / jax.lax.psum(mask.sum(), axis_name)


# %% wrong="pads a full batch too" fails="padded and split; mask"
"""Adds a row to each device even where the batch divides."""


def pad_and_shard(batch, num_devices):
    num_rows = len(jax.tree.leaves(batch)[0])
    if num_rows == 0:
        raise ValueError("the batch has no rows")
    per_device = num_rows // num_devices + 1

    def split(a):
        padded = pad_rows(a, num_devices * per_device)
        return padded.reshape(num_devices, per_device, *a.shape[1:])

    return jax.tree.map(split, batch), split(np.ones(num_rows, bool))


def weighted_loss(params, x, y, mask, axis_name):
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / jax.lax.psum(mask.sum(), axis_name)


# %% wrong="pads with float zeros" fails="padded and split"
"""Appends float64 zeros, which turn integer labels and pixels into floats."""


def pad_and_shard(batch, num_devices):
    num_rows = len(jax.tree.leaves(batch)[0])
    if num_rows == 0:
        raise ValueError("the batch has no rows")
    missing = -num_rows % num_devices

    def split(a):
        padded = np.concatenate([a, np.zeros((missing, *a.shape[1:]))])
        return padded.reshape(num_devices, -1, *a.shape[1:])

    return jax.tree.map(split, batch), split(np.ones(num_rows)) > 0


def weighted_loss(params, x, y, mask, axis_name):
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / jax.lax.psum(mask.sum(), axis_name)


# %% wrong="pads with the last row" fails="padded and split"
"""Repeats the last row in place of zeros."""


def pad_and_shard(batch, num_devices):
    num_rows = len(jax.tree.leaves(batch)[0])
    if num_rows == 0:
        raise ValueError("the batch has no rows")
    rows = np.arange(-(-num_rows // num_devices) * num_devices)
    rows = rows.reshape(num_devices, -1)
    taken = np.minimum(rows, num_rows - 1)
    return jax.tree.map(lambda a: a[taken], batch), rows < num_rows


def weighted_loss(params, x, y, mask, axis_name):
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / jax.lax.psum(mask.sum(), axis_name)


# %% wrong="reads the mask off the data" fails="mask"
# cause: a true row of zeros was taken for padding
"""Calls every row of zeros padding, a true one too."""


def pad_and_shard(batch, num_devices):
    num_rows = len(jax.tree.leaves(batch)[0])
    if num_rows == 0:
        raise ValueError("the batch has no rows")
    per_device = -(-num_rows // num_devices)

    def split(a):
        padded = pad_rows(a, num_devices * per_device)
        return padded.reshape(num_devices, per_device, *a.shape[1:])

    batch = jax.tree.map(split, batch)
    first = jax.tree.leaves(batch)[0]
    return batch, np.any(first.reshape(*first.shape[:2], -1) != 0, axis=-1)


def weighted_loss(params, x, y, mask, axis_name):
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / jax.lax.psum(mask.sum(), axis_name)


# %% wrong="scales the mean" fails="share of the mean; gradients add up; padding does not matter"
# cause: masked rows were added up
"""Turns the mean over all rows into one over the true rows by their number alone."""


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
    return mlp_loss(params, x, y) * len(y) / jax.lax.psum(mask.sum(), axis_name)


# %% wrong="splits over all devices" fails="padded and split"
"""Splits over the devices of this machine, not over those that were asked for."""


def pad_and_shard(batch, num_devices):
    num_devices = jax.device_count()
    num_rows = len(jax.tree.leaves(batch)[0])
    if num_rows == 0:
        raise ValueError("the batch has no rows")
    per_device = -(-num_rows // num_devices)

    def split(a):
        padded = pad_rows(a, num_devices * per_device)
        return padded.reshape(num_devices, per_device, *a.shape[1:])

    return jax.tree.map(split, batch), split(np.ones(num_rows, bool))


def weighted_loss(params, x, y, mask, axis_name):
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / jax.lax.psum(mask.sum(), axis_name)


# %% wrong="sums up in the loss" fails="share of the mean; gradients add up"
# cause: the shares add up to 8 times the mean
"""Returns the whole mean on each device: the shares add up to D times as much."""


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
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    total = jax.lax.psum((errors.sum(), mask.sum()), axis_name)
    return total[0] / total[1]


# %% wrong="takes pairs only" fails="padded and split"
"""Unpacks the batch as the pair that it is in training: other trees fail."""


def pad_and_shard(batch, num_devices):
    x, y = batch
    if len(x) == 0:
        raise ValueError("the batch has no rows")
    per_device = -(-len(x) // num_devices)

    def split(a):
        padded = pad_rows(a, num_devices * per_device)
        return padded.reshape(num_devices, per_device, *a.shape[1:])

    return (split(x), split(y)), split(np.ones(len(x), bool))


def weighted_loss(params, x, y, mask, axis_name):
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / jax.lax.psum(mask.sum(), axis_name)


# %% wrong="zeros at the end are padding" fails="mask"
"""Takes true rows of zeros at the end for padding."""


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


# %% right="via flat leaves"
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


# %% right="via jnp and masked inputs"
"""Pads by jnp, and lets masked rows enter the loss as zeros."""


def pad_and_shard(batch, num_devices):
    num_rows = len(jax.tree.leaves(batch)[0])
    if num_rows < 1:
        raise ValueError("nothing to shard")
    missing = -num_rows % num_devices

    def split(a):
        rest = jnp.zeros((missing, *a.shape[1:]), a.dtype)
        whole = jnp.concatenate([jnp.asarray(a), rest])
        return whole.reshape(num_devices, -1, *a.shape[1:])

    return jax.tree.map(split, batch), split(jnp.ones(num_rows, bool))


def weighted_loss(params, x, y, mask, axis_name):
    counts = jax.lax.all_gather(jnp.sum(mask), axis_name)
    gaps = jnp.where(mask, mlp(params, jnp.where(mask[:, None], x, 0)) - y, 0.0)
    return gaps @ gaps / counts.sum()


# %% right="via scatter"
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


# %% right="via slices"
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


# %% right="via take"
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


# %% right="via weighted average"
"""Appends copies of a row and erases them; a share is a part of the local mean."""


def pad_and_shard(batch, num_devices):
    sizes = {leaf.shape[0] for leaf in jax.tree.leaves(batch)}
    (rows,) = sizes
    if rows == 0:
        raise ValueError("the batch is empty")
    whole = (rows + num_devices - 1) // num_devices * num_devices

    def take(leaf):
        longer = np.resize(np.asarray(leaf), (whole, *leaf.shape[1:]))
        longer[rows:] = np.zeros((), leaf.dtype)
        return longer.reshape((num_devices, whole // num_devices, *leaf.shape[1:]))

    return jax.tree.map(take, batch), take(np.ones(rows, np.bool_))


def weighted_loss(params, x, y, mask, axis_name):
    own = jnp.sum(mask)
    mean = jnp.sum((mlp(params, x) - y) ** 2, where=mask) / jnp.maximum(own, 1)
    return mean * (own / jax.lax.psum(own, axis_name))


# %% right="via lax pad"
"""Pads by lax.pad; a share is a mean over the count's mean."""


def pad_and_shard(batch, num_devices):
    rows = len(jax.tree_util.tree_leaves(batch)[0])
    extra = -rows % num_devices

    def put(a):
        a = jnp.asarray(a)
        zero = jnp.zeros((), a.dtype)
        a = jax.lax.pad(a, zero, [(0, extra, 0)] + [(0, 0, 0)] * (a.ndim - 1))
        return jnp.stack(jnp.split(a, num_devices))

    return jax.tree_util.tree_map(put, batch), put(jnp.ones((rows,), dtype=jnp.bool_))


def weighted_loss(params, x, y, mask, axis_name):
    errors = jax.lax.select(mask, (mlp(params, x) - y) ** 2, jnp.zeros_like(y))
    mean_count = jax.lax.pmean(mask.sum(), axis_name)
    return errors.sum() / (mean_count * jax.lax.axis_size(axis_name))
