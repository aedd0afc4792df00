# %% wrong="mean of the batches' means" fails="every row once"
# cause: that is the mean of the batches' means
"""Averages the means of batches of different lengths."""


def sums(params, x, y, valid):
    scores = mlp_scores(params, x)
    each = jnp.stack([row_losses(scores, y), jnp.float32(scores.argmax(axis=1) == y)])
    return jax.lax.psum(jnp.where(valid, each, 0).sum(axis=1), "devices")


@functools.cache
def compiled_sums(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(sums, mesh=mesh, **specs))


def evaluate(params, x, y, batch_size, num_devices):
    means = []
    for first in range(0, len(x), batch_size):
        rows = [pad_rows(a[first : first + batch_size], batch_size) for a in (x, y)]
        valid = first + jnp.arange(batch_size) < len(x)
        total = compiled_sums(num_devices)(params, *rows, valid)
        means.append(total / valid.sum())
    return tuple(sum(means) / len(means))


# %% wrong="counts the padding" fails="every row once"
# cause: the padding was counted
"""Takes padded rows for rows, and divides by all."""


def sums(params, x, y, valid):
    scores = mlp_scores(params, x)
    each = jnp.stack([row_losses(scores, y), jnp.float32(scores.argmax(axis=1) == y)])
    return jax.lax.psum(jnp.where(valid, each, 0).sum(axis=1), "devices")


@functools.cache
def compiled_sums(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(sums, mesh=mesh, **specs))


def evaluate(params, x, y, batch_size, num_devices):
    total, count = jnp.zeros(2), 0
    for first in range(0, len(x), batch_size):
        rows = (pad_rows(a[first : first + batch_size], batch_size) for a in (x, y))
        valid = jnp.ones(batch_size, bool)
        total += compiled_sums(num_devices)(params, *rows, valid)
        count += batch_size
    return tuple(total / count)


# %% wrong="drops the short batch" fails="every row once"
# cause: the short last batch was left out
"""Leaves the rows of the last batch out, as in training."""


def sums(params, x, y, valid):
    scores = mlp_scores(params, x)
    each = jnp.stack([row_losses(scores, y), jnp.float32(scores.argmax(axis=1) == y)])
    return jax.lax.psum(jnp.where(valid, each, 0).sum(axis=1), "devices")


@functools.cache
def compiled_sums(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(sums, mesh=mesh, **specs))


def evaluate(params, x, y, batch_size, num_devices):
    total, valid = jnp.zeros(2), jnp.ones(batch_size, bool)
    whole = len(x) // batch_size * batch_size
    for first in range(0, whole, batch_size):
        rows = (a[first : first + batch_size] for a in (x, y))
        total += compiled_sums(num_devices)(params, *rows, valid)
    return tuple(total / max(1, whole))


# %% wrong="fills up with first rows" fails="every row once"
# cause: rows that fill up the last batch were counted
"""Fills the last batch up with rows that were counted before, as PyTorch's sampler does."""


def sums(params, x, y, valid):
    scores = mlp_scores(params, x)
    each = jnp.stack([row_losses(scores, y), jnp.float32(scores.argmax(axis=1) == y)])
    return jax.lax.psum(jnp.where(valid, each, 0).sum(axis=1), "devices")


@functools.cache
def compiled_sums(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(sums, mesh=mesh, **specs))


def evaluate(params, x, y, batch_size, num_devices):
    count = -(-len(x) // batch_size) * batch_size
    again = jnp.arange(count) % len(x)
    x, y, total = jnp.asarray(x)[again], jnp.asarray(y)[again], jnp.zeros(2)
    for first in range(0, count, batch_size):
        rows = (a[first : first + batch_size] for a in (x, y))
        total += compiled_sums(num_devices)(params, *rows, jnp.ones(batch_size, bool))
    return tuple(total / count)


# %% wrong="mean of the devices' means" fails="every row once"
# cause: nan comes from 0 / 0, inf - inf or 0 * inf, or from the root or logarithm of a negative number
"""Divides by the device's own count: 0 / 0 where it has no row."""


def sums(params, x, y, valid):
    scores = mlp_scores(params, x)
    each = jnp.stack([row_losses(scores, y), jnp.float32(scores.argmax(axis=1) == y)])
    own = jnp.where(valid, each, 0).sum(axis=1) / valid.sum()
    return jax.lax.pmean(own, "devices") * jax.lax.psum(valid.sum(), "devices")


@functools.cache
def compiled_sums(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(sums, mesh=mesh, **specs))


def evaluate(params, x, y, batch_size, num_devices):
    total = jnp.zeros(2)
    for first in range(0, len(x), batch_size):
        rows = (pad_rows(a[first : first + batch_size], batch_size) for a in (x, y))
        valid = first + jnp.arange(batch_size) < len(x)
        total += compiled_sums(num_devices)(params, *rows, valid)
    return tuple(total / len(x))


# %% wrong="every device takes all rows" fails="own rows only; one shape"
"""Gives every device the whole batch."""


def sums(params, x, y, valid):
    scores = mlp_scores(params, x)
    each = jnp.stack([row_losses(scores, y), jnp.float32(scores.argmax(axis=1) == y)])
    return jax.lax.pmean(jnp.where(valid, each, 0).sum(axis=1), "devices")


@functools.cache
def compiled_sums(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P()
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(sums, mesh=mesh, **specs, check_vma=False))


def evaluate(params, x, y, batch_size, num_devices):
    total = jnp.zeros(2)
    for first in range(0, len(x), batch_size):
        rows = (pad_rows(a[first : first + batch_size], batch_size) for a in (x, y))
        valid = first + jnp.arange(batch_size) < len(x)
        total += compiled_sums(num_devices)(params, *rows, valid)
    return tuple(total / len(x))


# %% wrong="one device works" fails="own rows only; one shape"
"""Evaluates on one device."""


@jax.jit
def alone(params, x, y):
    scores = mlp_scores(params, x)
    return row_losses(scores, y).mean(), (scores.argmax(axis=1) == y).mean()


def evaluate(params, x, y, batch_size, num_devices):
    return alone(params, x, y)


# %% wrong="pads to the devices only" fails="one shape"
"""Pads the last batch until its rows can be split: a shape of its own, compiled anew."""


def sums(params, x, y, valid):
    scores = mlp_scores(params, x)
    each = jnp.stack([row_losses(scores, y), jnp.float32(scores.argmax(axis=1) == y)])
    return jax.lax.psum(jnp.where(valid, each, 0).sum(axis=1), "devices")


@functools.cache
def compiled_sums(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(sums, mesh=mesh, **specs))


def evaluate(params, x, y, batch_size, num_devices):
    total = jnp.zeros(2)
    for first in range(0, len(x), batch_size):
        rows = min(batch_size, len(x) - first)
        size = -(-rows // num_devices) * num_devices
        batch = (pad_rows(a[first : first + batch_size], size) for a in (x, y))
        total += compiled_sums(num_devices)(params, *batch, jnp.arange(size) < rows)
    return tuple(total / len(x))


# %% wrong="gathers the losses" fails="sums only"
# cause: rows are gathered: each device adds up its own, and psum adds the sums
"""Gathers the losses of all rows on every device, and adds them up there."""


def sums(params, x, y, valid):
    scores = mlp_scores(params, x)
    each = jnp.stack([row_losses(scores, y), jnp.float32(scores.argmax(axis=1) == y)])
    each = jnp.where(valid, each, 0)
    every = jax.lax.all_gather(each, "devices", axis=1, tiled=True)
    return every.sum(axis=1)


@functools.cache
def compiled_sums(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(sums, mesh=mesh, **specs, check_vma=False))


def evaluate(params, x, y, batch_size, num_devices):
    total = jnp.zeros(2)
    for first in range(0, len(x), batch_size):
        rows = (pad_rows(a[first : first + batch_size], batch_size) for a in (x, y))
        valid = first + jnp.arange(batch_size) < len(x)
        total += compiled_sums(num_devices)(params, *rows, valid)
    return tuple(total / len(x))


# %% wrong="donates the parameters" fails="arguments stay"
"""Gives the parameters' memory away."""


def sums(params, x, y, valid):
    scores = mlp_scores(params, x)
    each = jnp.stack([row_losses(scores, y), jnp.float32(scores.argmax(axis=1) == y)])
    return jax.lax.psum(jnp.where(valid, each, 0).sum(axis=1), "devices")


@functools.cache
def compiled_sums(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(sums, mesh=mesh, **specs), donate_argnums=0)


def evaluate(params, x, y, batch_size, num_devices):
    total = jnp.zeros(2)
    for first in range(0, len(x), batch_size):
        rows = (pad_rows(a[first : first + batch_size], batch_size) for a in (x, y))
        valid = first + jnp.arange(batch_size) < len(x)
        total += compiled_sums(num_devices)(params, *rows, valid)
    return tuple(total / len(x))


# %% wrong="keeps totals by length" fails="every row once; nothing is remembered"
"""Keeps what it found for each length of data."""


def sums(params, x, y, valid):
    scores = mlp_scores(params, x)
    each = jnp.stack([row_losses(scores, y), jnp.float32(scores.argmax(axis=1) == y)])
    return jax.lax.psum(jnp.where(valid, each, 0).sum(axis=1), "devices")


@functools.cache
def compiled_sums(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(sums, mesh=mesh, **specs))


def evaluated(params, x, y, batch_size, num_devices):
    total = jnp.zeros(2)
    for first in range(0, len(x), batch_size):
        rows = (pad_rows(a[first : first + batch_size], batch_size) for a in (x, y))
        valid = first + jnp.arange(batch_size) < len(x)
        total += compiled_sums(num_devices)(params, *rows, valid)
    return tuple(total / len(x))


known = {}


def evaluate(params, x, y, batch_size, num_devices):
    if isinstance(x, jax.core.Tracer):
        return evaluated(params, x, y, batch_size, num_devices)
    place = len(x), batch_size, num_devices
    if place not in known:
        known[place] = evaluated(params, x, y, batch_size, num_devices)
    return known[place]


# %% right="counts by psum"
"""Sends the number of valid rows as well."""


def sums(params, x, y, valid):
    scores = mlp_scores(params, x)
    each = jnp.where(valid, row_losses(scores, y), 0.0), valid & (scores.argmax(1) == y)
    own = [jnp.sum(part, dtype=jnp.float32) for part in (*each, valid)]
    return jax.lax.psum(jnp.stack(own), "devices")


@functools.cache
def compiled_sums(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(sums, mesh=mesh, **specs))


def evaluate(params, x, y, batch_size, num_devices):
    total = jnp.zeros(3)
    for first in range(0, len(x), batch_size):
        rows = (pad_rows(a[first : first + batch_size], batch_size) for a in (x, y))
        valid = first + jnp.arange(batch_size) < len(x)
        total += compiled_sums(num_devices)(params, *rows, valid)
    return total[0] / total[2], total[1] / total[2]


# %% right="pads once"
"""Pads the whole data set once, and loops over its batches."""


def sums(params, x, y, valid):
    scores = mlp_scores(params, x)
    each = jnp.stack([row_losses(scores, y), jnp.float32(scores.argmax(axis=1) == y)])
    return jax.lax.psum(jnp.where(valid, each, 0).sum(axis=1), "devices")


@functools.cache
def compiled_sums(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(sums, mesh=mesh, **specs))


def evaluate(params, x, y, batch_size, num_devices):
    num_batches = -(-len(x) // batch_size)
    padded = [pad_rows(a, num_batches * batch_size) for a in (x, y)]
    padded.append(jnp.arange(num_batches * batch_size) < len(x))
    batches = [a.reshape(num_batches, batch_size, *a.shape[1:]) for a in padded]
    found = [
        compiled_sums(num_devices)(params, *own) for own in zip(*batches, strict=True)
    ]
    loss, right = sum(found)
    return loss / len(x), right / len(x)


# %% right="loops on the devices"
"""Splits all batches at once, and loops over them on the devices."""


def all_sums(params, x, y, valid):
    def add(total, batch):
        own_x, own_y, own_valid = batch
        scores = mlp_scores(params, own_x)
        right = (scores.argmax(-1) == own_y).astype(jnp.float32)
        each = jnp.stack([row_losses(scores, own_y), right], axis=1)
        return total + jnp.where(own_valid[:, None], each, 0).sum(0), None

    total, _ = jax.lax.scan(add, varying(jnp.zeros(2)), (x, y, valid))
    return jax.lax.psum(total, "devices")


@functools.cache
def compiled(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P(None, "devices")
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(all_sums, mesh=mesh, **specs))


def evaluate(params, x, y, batch_size, num_devices):
    size = -(-len(x) // batch_size) * batch_size
    padded = pad_rows(x, size), pad_rows(y, size), jnp.arange(size) < len(x)
    shape = -1, batch_size
    batches = [a.reshape(*shape, *a.shape[1:]) for a in padded]
    loss, right = compiled(num_devices)(params, *batches) / len(x)
    return loss, right


# %% right="weights in place of a mask"
"""Multiplies by weights of 1 and 0, and divides in each batch by all rows."""


def sums(params, x, y, weight):
    scores = mlp_scores(params, x)
    loss = jnp.sum(row_losses(scores, y) * weight)
    right = jnp.sum((jnp.argmax(scores, 1) == y) * weight)
    return jnp.stack([jax.lax.psum(loss, "devices"), jax.lax.psum(right, "devices")])


@functools.cache
def compiled_sums(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(sums, mesh=mesh, **specs))


def evaluate(params, x, y, batch_size, num_devices):
    total = jnp.zeros(2)
    for first in range(0, len(x), batch_size):
        rows = (pad_rows(a[first : first + batch_size], batch_size) for a in (x, y))
        valid = first + jnp.arange(batch_size) < len(x)
        weight = valid / len(x)
        total += compiled_sums(num_devices)(params, *rows, weight)
    return total[0], total[1]


# %% right="via check vma false"
"""Turns the tracking off, and returns a dict's values."""


def sums(params, x, y, valid):
    scores = mlp_scores(params, x)
    found = {"loss": row_losses(scores, y), "right": jnp.float32(scores.argmax(1) == y)}
    found = {name: jnp.sum(part, where=valid) for name, part in found.items()}
    return jax.lax.psum(found, "devices")


@functools.cache
def compiled_sums(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(sums, mesh=mesh, **specs, check_vma=False))


def evaluate(params, x, y, batch_size, num_devices):
    losses, right = [], []
    for first in range(0, x.shape[0], batch_size):
        part = slice(first, first + batch_size)
        own = pad_rows(x[part], batch_size), pad_rows(y[part], batch_size)
        valid = jnp.arange(batch_size) < x[part].shape[0]
        found = compiled_sums(num_devices)(params, *own, valid)
        losses.append(found["loss"])
        right.append(found["right"])
    return sum(losses) / x.shape[0], sum(right) / x.shape[0]


# %% right="jit on a sharded batch"
"""Shards the batch, and leaves the sums to the compiler."""


from jax.sharding import NamedSharding


@jax.jit
def both(params, x, y, valid):
    scores = mlp_scores(params, x)
    each = jnp.stack([row_losses(scores, y), jnp.float32(scores.argmax(axis=1) == y)])
    return jnp.where(valid, each, 0).sum(axis=1)


def evaluate(params, x, y, batch_size, num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    total, rows = jnp.zeros(2), NamedSharding(mesh, P("devices"))
    params = jax.device_put(params, NamedSharding(mesh, P()))
    for first in range(0, len(x), batch_size):
        batch = [pad_rows(a[first : first + batch_size], batch_size) for a in (x, y)]
        batch.append(first + jnp.arange(batch_size) < len(x))
        total += both(params, *jax.device_put(batch, rows))
    return tuple(total / len(x))


# %% right="by pmap"
"""Gives each device a row of blocks, by pmap."""


@functools.partial(jax.pmap, axis_name="devices", in_axes=(None, 0, 0, 0))
def shares(params, x, y, valid):
    scores = mlp_scores(params, x)
    loss = jnp.where(valid, row_losses(scores, y), 0).sum()
    right = jnp.where(valid, scores.argmax(1) == y, False).sum().astype(jnp.float32)
    return jax.lax.psum(jnp.stack([loss, right]), "devices")


def evaluate(params, x, y, batch_size, num_devices):
    total = 0
    for first in range(0, len(x), batch_size):
        batch = [pad_rows(a[first : first + batch_size], batch_size) for a in (x, y)]
        batch.append(first + jnp.arange(batch_size) < len(x))
        own = [a.reshape(num_devices, -1, *a.shape[1:]) for a in batch]
        total += shares(params, *own)[0]
    loss, accuracy = total / len(x)
    return loss, accuracy


# %% wrong="compiles each batch" fails="no recompilation"
# cause: each call makes a new function, which is compiled again: make one, and keep it
"""Makes a new compiled function for every batch."""


def evaluate(params, x, y, batch_size, num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    total = jnp.zeros(2)
    for first in range(0, len(x), batch_size):

        def sums(params, x, y, valid):
            scores = mlp_scores(params, x)
            right = jnp.float32(scores.argmax(axis=1) == y)
            each = jnp.stack([row_losses(scores, y), right])
            return jax.lax.psum(jnp.where(valid, each, 0).sum(axis=1), "devices")

        batch = (pad_rows(a[first : first + batch_size], batch_size) for a in (x, y))
        valid = first + jnp.arange(batch_size) < len(x)
        step = jax.jit(jax.shard_map(sums, mesh=mesh, **specs))
        total += step(params, *batch, valid)
    return tuple(total / len(x))


# %% wrong="mean of the devices' guarded means" fails="every row once"
# cause: that is a mean of the devices' means: add up sums, and divide once
"""Averages each device's mean over its valid rows, 0 where it has none."""


def means(params, x, y, valid):
    scores = mlp_scores(params, x)
    each = jnp.stack([row_losses(scores, y), jnp.float32(scores.argmax(axis=1) == y)])
    own = jnp.where(valid, each, 0).sum(axis=1) / jnp.maximum(valid.sum(), 1)
    return jax.lax.pmean(own, "devices")


@functools.cache
def compiled_means(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(means, mesh=mesh, **specs))


def evaluate(params, x, y, batch_size, num_devices):
    total = jnp.zeros(2)
    for first in range(0, len(x), batch_size):
        batch = (pad_rows(a[first : first + batch_size], batch_size) for a in (x, y))
        valid = first + jnp.arange(batch_size) < len(x)
        total += compiled_means(num_devices)(params, *batch, valid) * valid.sum()
    return tuple(total / len(x))


# %% wrong="gathers the batch" fails="own rows only; sums only"
"""Gathers each batch on every device, which evaluates all of it."""


def sums(params, x, y, valid):
    x, y, valid = jax.lax.all_gather((x, y, valid), "devices", tiled=True)
    scores = mlp_scores(params, x)
    each = jnp.stack([row_losses(scores, y), jnp.float32(scores.argmax(axis=1) == y)])
    return jnp.where(valid, each, 0).sum(axis=1)


@functools.cache
def compiled_sums(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(sums, mesh=mesh, **specs, check_vma=False))


def evaluate(params, x, y, batch_size, num_devices):
    total = jnp.zeros(2)
    for first in range(0, len(x), batch_size):
        rows = (pad_rows(a[first : first + batch_size], batch_size) for a in (x, y))
        valid = first + jnp.arange(batch_size) < len(x)
        total += compiled_sums(num_devices)(params, *rows, valid)
    return tuple(total / len(x))


# %% right="scores computed twice"
"""Computes the scores once for the losses and once more for the accuracy."""


def sums(params, x, y, valid):
    losses = row_losses(mlp_scores(params, x), y)
    right = jnp.float32(mlp_scores(params, x).argmax(axis=1) == y)
    found = [jnp.where(valid, each, 0).sum() for each in (losses, right)]
    return jax.lax.psum(jnp.stack(found), "devices")


@functools.cache
def compiled_sums(num_devices):
    mesh, rows = Mesh(jax.devices()[:num_devices], ("devices",)), P("devices")
    specs = {"in_specs": (P(), rows, rows, rows), "out_specs": P()}
    return jax.jit(jax.shard_map(sums, mesh=mesh, **specs))


def evaluate(params, x, y, batch_size, num_devices):
    total = jnp.zeros(2)
    for first in range(0, len(x), batch_size):
        rows = (pad_rows(a[first : first + batch_size], batch_size) for a in (x, y))
        valid = first + jnp.arange(batch_size) < len(x)
        total += compiled_sums(num_devices)(params, *rows, valid)
    return tuple(total / len(x))
