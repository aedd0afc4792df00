# %% wrong="axis name written into the code" fails="right rows"
"""Splits over an axis "data" of the sharding's mesh, which need not have one."""


def batches(data, batch_size, sharding, seed, start_step):
    by_rows = NamedSharding(sharding.mesh, P("data"))

    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(data[0]))
        orders = {e: epoch_order(seed, e, len(data[0])) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return tuple(place(array[rows], by_rows) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now


# %% wrong="casts to float32" fails="right rows"
"""Turns all that is no 32-bit integer into float32: images of bytes take four times the
room.
"""


def batches(data, batch_size, sharding, seed, start_step):
    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(data[0]))
        orders = {e: epoch_order(seed, e, len(data[0])) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        found = (array[rows] for array in data)
        found = (a if a.dtype == np.int32 else a.astype(np.float32) for a in found)
        return tuple(place(array, sharding) for array in found)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now


# %% wrong="counts rows from start step" fails="right rows"
# cause: the batches begin at row 4, not at batch 4
"""Takes start_step for the number of a row, not of a batch."""


def batches(data, batch_size, sharding, seed, start_step):
    def ready(step):
        places = start_step + step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(data[0]))
        orders = {e: epoch_order(seed, e, len(data[0])) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready(0)
    for step in itertools.count(1):
        now, ahead = ahead, ready(step)
        yield now


# %% wrong="counts the devices" fails="right rows"
"""Refuses what does not divide over all devices, though the sharding makes fewer parts."""


def batches(data, batch_size, sharding, seed, start_step):
    if batch_size % sharding.mesh.size:
        raise ValueError(f"{batch_size} rows over {sharding.mesh.size} devices")

    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(data[0]))
        orders = {e: epoch_order(seed, e, len(data[0])) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now


# %% wrong="crosses one epoch at most" fails="right rows"
"""Fills a batch up with rows of the next epoch, and no further: fails where a batch is
larger than an epoch.
"""


def batches(data, batch_size, sharding, seed, start_step):
    def ready(step):
        epoch, first = divmod(step * batch_size, len(data[0]))
        rows = epoch_order(seed, epoch, len(data[0]))[first : first + batch_size]
        more = epoch_order(seed, epoch + 1, len(data[0]))[: batch_size - len(rows)]
        rows = np.concatenate([rows, more])
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now


# %% wrong="drops the rest of an epoch" fails="right rows"
# cause: the rest of an epoch is dropped
"""Cuts each epoch into whole batches and drops the rows that are left."""


def batches(data, batch_size, sharding, seed, start_step):
    per_epoch = max(1, len(data[0]) // batch_size)

    def ready(step):
        epoch, number = divmod(step, per_epoch)
        order = epoch_order(seed, epoch, len(data[0]))
        rows = order[number * batch_size : (number + 1) * batch_size]
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now


# %% wrong="epochs counted in float32" fails="right rows"
"""Divides places in 32 bits: far along, a row falls into the wrong epoch."""


def batches(data, batch_size, sharding, seed, start_step):
    num_rows = len(data[0])

    def ready(step):
        places = step * batch_size + jnp.arange(batch_size)
        epochs = np.asarray(places / num_rows).astype(int)
        index = np.asarray(places).astype(int) - epochs * num_rows
        rows = np.concatenate(
            [
                epoch_order(seed, epoch, num_rows)[index[epochs == epoch]]
                for epoch in np.unique(epochs)
            ]
        )
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now


# %% wrong="every device holds all rows" fails="sharded as asked"
# cause: each device holds all rows: place(array, sharding) splits them
"""Takes the mesh from the sharding and not its layout: right on one device, the whole
batch on each of eight.
"""


def batches(data, batch_size, sharding, seed, start_step):
    if batch_size % sharding.mesh.size:
        raise ValueError(f"{batch_size} rows on {sharding.mesh.size} devices")
    whole = NamedSharding(sharding.mesh, P())

    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(data[0]))
        orders = {e: epoch_order(seed, e, len(data[0])) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return tuple(place(array[rows], whole) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now


# %% wrong="ignores start step" fails="right rows"
# cause: these are the batches from number 0 on
"""Begins at batch 0 whatever start_step says: a resumed run sees the same rows again."""


def batches(data, batch_size, sharding, seed, start_step):
    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(data[0]))
        orders = {e: epoch_order(seed, e, len(data[0])) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready(0)
    for step in itertools.count(1):
        now, ahead = ahead, ready(step)
        yield now


# %% wrong="ignores the seed" fails="right rows"
# cause: the orders are those of seed 0
"""Shuffles every run alike."""


def batches(data, batch_size, sharding, seed, start_step):
    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(data[0]))
        orders = {e: epoch_order(0, e, len(data[0])) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now


# %% wrong="keeps the orders by epoch" fails="nothing is remembered"
"""Keeps the epochs' orders for all streams, whatever their seed."""

kept_orders = {}


def batches(data, batch_size, sharding, seed, start_step):
    size = len(data[0])

    def row(place_in_line):
        epoch, inside = divmod(place_in_line, size)
        if (epoch, size) not in kept_orders:
            kept_orders[epoch, size] = epoch_order(seed, epoch, size)
        return kept_orders[epoch, size][inside]

    def ready(step):
        rows = [row(step * batch_size + i) for i in range(batch_size)]
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now


# %% wrong="makes the next after the yield" fails="prefetching"
# cause: the next batch is placed when it is asked for, not before the yield
"""Makes the next batch when it is asked for: the devices wait for it."""


def batches(data, batch_size, sharding, seed, start_step):
    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(data[0]))
        orders = {e: epoch_order(seed, e, len(data[0])) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return tuple(place(array[rows], sharding) for array in data)

    batch = ready(start_step)
    for step in itertools.count(start_step + 1):
        yield batch
        batch = ready(step)


# %% wrong="orders kept by seed and epoch" fails="nothing is remembered"
"""Keeps orders by seed and epoch: other data of as many epochs gets them, too."""

known_orders = {}


def batches(data, batch_size, sharding, seed, start_step):
    num_rows = len(data[0])

    def order(epoch):  # to permute a million rows twice for each batch takes time
        if (seed, epoch) not in known_orders:
            while len(known_orders) > 7:
                known_orders.pop(next(iter(known_orders)))
            known_orders[seed, epoch] = epoch_order(seed, epoch, num_rows)
        return known_orders[seed, epoch]

    def ready(step):
        places = np.arange(step * batch_size, (step + 1) * batch_size)
        epochs, inside = np.divmod(places, num_rows)
        rows = np.empty(batch_size, np.int64)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            rows[here] = order(int(epoch))[inside[here]]
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready(start_step)
    while True:
        start_step += 1
        now, ahead = ahead, ready(start_step)
        yield now


# %% wrong="places the next when it is asked for" fails="prefetching"
# cause: the next batch is placed when it is asked for, not before the yield
"""Makes a batch when it is asked for: nothing is on its way."""


def batches(data, batch_size, sharding, seed, start_step):
    num_rows = len(data[0])
    for step in itertools.count(start_step):
        places = range(step * batch_size, (step + 1) * batch_size)
        orders = {}
        rows = []
        for epoch, inside in (
            divmod(place_in_line, num_rows) for place_in_line in places
        ):
            if epoch not in orders:
                orders[epoch] = epoch_order(seed, epoch, num_rows)
            rows.append(orders[epoch][inside])
        yield tuple(place(array[np.array(rows)], sharding) for array in data)


# %% wrong="restarts the epoch" fails="right rows"
# cause: the epoch begins again: rows come twice
"""Goes back to the beginning of start_step's epoch, so that some rows come twice."""


def batches(data, batch_size, sharding, seed, start_step):
    def line():
        for epoch in itertools.count(start_step * batch_size // len(data[0])):
            yield from epoch_order(seed, epoch, len(data[0]))

    rows_left = line()

    def ready():
        rows = np.array(list(itertools.islice(rows_left, batch_size)))
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready()
    while True:
        now, ahead = ahead, ready()
        yield now


# %% wrong="rounds the batch down" fails="right rows"
"""Makes the batch smaller where it does not divide, and tells nobody."""


def batches(data, batch_size, sharding, seed, start_step):
    batch_size -= batch_size % sharding.mesh.size

    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(data[0]))
        orders = {e: epoch_order(seed, e, len(data[0])) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now


# %% wrong="same order in every epoch" fails="right rows"
# cause: every epoch has the order of the first
"""Shuffles once, not once per epoch."""


def batches(data, batch_size, sharding, seed, start_step):
    order = epoch_order(seed, 0, len(data[0]))

    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        rows = order[places % len(order)]
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now


# %% wrong="shuffles the data itself" fails="arguments stay"
"""Shuffles the caller's arrays in place, once per epoch."""


def batches(data, batch_size, sharding, seed, start_step):
    size, original = len(data[0]), [array.copy() for array in data]
    current = None

    def row_of(place_in_line):
        nonlocal current
        epoch, inside = divmod(place_in_line, size)
        if epoch != current:
            order, current = epoch_order(seed, epoch, size), epoch
            for array, first in zip(data, original, strict=True):
                array[:] = first[order]
        return [array[inside].copy() for array in data]

    def ready(step):
        rows = [row_of(step * batch_size + i) for i in range(batch_size)]
        return tuple(place(np.stack(c), sharding) for c in zip(*rows, strict=True))

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now


# %% wrong="two arrays only" fails="right rows"
"""Takes it that data is a pair, as in the example."""


def batches(data, batch_size, sharding, seed, start_step):
    x, y = data

    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(x))
        orders = {e: epoch_order(seed, e, len(x)) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return place(x[rows], sharding), place(y[rows], sharding)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now


# %% wrong="walks from zero" fails="starts anywhere"
"""Makes the rows of all batches before start_step, and drops them."""


def batches(data, batch_size, sharding, seed, start_step):
    def line():
        for epoch in itertools.count():
            yield epoch_order(seed, epoch, len(data[0]))

    def ready(skipped):
        nonlocal rows
        missing = skipped + batch_size - len(rows)
        while missing > 0:
            order = next(orders)
            missing, rows = missing - len(order), np.concatenate([rows, order])
            dropped = min(skipped, len(rows))
            skipped, rows = skipped - dropped, rows[dropped:]
        own, rows = rows[skipped:][:batch_size], rows[skipped + batch_size :]
        return tuple(place(array[own], sharding) for array in data)

    orders, rows = line(), np.arange(0)
    ahead = ready(start_step * batch_size)
    while True:
        now, ahead = ahead, ready(0)
        yield now


# %% wrong="prefetches four batches alone" fails="prefetching"
# cause: the next batch is placed when it is asked for, not before the yield
"""Places the first batches ahead; from the fifth on, none is on its way."""


def batches(data, batch_size, sharding, seed, start_step):
    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(data[0]))
        orders = {e: epoch_order(seed, e, len(data[0])) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return tuple(place(array[rows], sharding) for array in data)

    ahead = [ready(start_step + k) for k in range(5)]
    while ahead:
        yield ahead.pop(0)
    for step in itertools.count(start_step + 5):
        yield ready(step)


# %% wrong="a sharding of its own" fails="sharded as asked"
"""Splits over all devices by a mesh of its own, whatever sharding is asked for."""


def batches(data, batch_size, sharding, seed, start_step):
    own = NamedSharding(make_mesh(8), P("data"))
    own = own if batch_size % 8 == 0 else sharding

    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(data[0]))
        orders = {e: epoch_order(seed, e, len(data[0])) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return tuple(place(array[rows], own) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now


# %% right="two batches ahead"
"""Keeps two batches ahead: more memory than was asked for."""

import collections


def batches(data, batch_size, sharding, seed, start_step):
    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(data[0]))
        orders = {e: epoch_order(seed, e, len(data[0])) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return tuple(place(array[rows], sharding) for array in data)

    ahead = collections.deque([ready(start_step), ready(start_step + 1)])
    for step in itertools.count(start_step + 2):
        ahead.append(ready(step))
        yield ahead.popleft()


# %% right="via a class"
"""Returns an iterator of its own class, which holds the batch to come."""


class Stream:
    def __init__(self, data, batch_size, sharding, seed, step):
        self.data, self.size, self.sharding = data, batch_size, sharding
        self.seed, self.step = seed, step
        self.coming = self.made()

    def __iter__(self):
        return self

    def __next__(self):
        here, self.coming = self.coming, self.made()
        return here

    def made(self):
        num_rows, rows = len(self.data[0]), []
        first = self.step * self.size
        self.step += 1
        while len(rows) < self.size:
            epoch, inside = divmod(first + len(rows), num_rows)
            rest = epoch_order(self.seed, epoch, num_rows)[inside:]
            rows.extend(rest[: self.size - len(rows)].tolist())
        return tuple(place(np.take(a, rows, axis=0), self.sharding) for a in self.data)


def batches(data, batch_size, sharding, seed, start_step):
    return Stream(data, batch_size, sharding, seed, start_step)


# %% right="via deque"
"""Keeps the batches in a queue; JAX's error tells of rows that do not divide."""

import collections


def batches(data, batch_size, sharding, seed, start_step):
    num_rows = len(data[0])

    def row(place_in_line):
        epoch, inside = divmod(place_in_line, num_rows)
        return epoch_order(seed, epoch, num_rows)[inside]

    queue = collections.deque()
    for step in itertools.count(start_step):
        rows = [row(step * batch_size + i) for i in range(batch_size)]
        queue.append(tuple(place(array[rows], sharding) for array in data))
        if len(queue) == 2:
            yield queue.popleft()


# %% right="via endless rows"
"""Walks along the line row by row, from the right row on; places with device_put."""


def batches(data, batch_size, sharding, seed, start_step):
    first_epoch, skipped = divmod(start_step * batch_size, len(data[0]))

    def line():
        for epoch in itertools.count(first_epoch):
            yield from epoch_order(seed, epoch, len(data[0]))

    rows_left = itertools.islice(line(), skipped, None)

    def ready():
        rows = list(itertools.islice(rows_left, batch_size))
        return jax.device_put(tuple(array[rows] for array in data), sharding)

    ahead = ready()
    while True:
        following = ready()
        yield ahead
        ahead = following


# %% right="via helpers called check and take"
"""Has helpers of its own, with names that the course uses, too."""


def check(batch_size, sharding):
    sharding.shard_shape((batch_size,))  # raises where it does not divide


def take(data, rows):
    return [array[rows] for array in data]


def observe(seed, size, epoch):
    while True:
        yield from epoch_order(seed, epoch, size)
        epoch += 1


def expect(line, count):
    return np.fromiter(line, int, count)


def batches(data, batch_size, sharding, seed, start_step):
    check(batch_size, sharding)
    epoch, skipped = divmod(start_step * batch_size, len(data[0]))
    line = observe(seed, len(data[0]), epoch)
    expect(line, skipped)

    def following():
        rows = expect(line, batch_size)
        return tuple(place(array, sharding) for array in take(data, rows))

    one = following()
    while True:
        two = following()
        yield one
        one = two


# %% right="via joined epochs"
"""Joins the orders of all epochs that a batch touches, and cuts the batch out."""

import math


def batches(data, batch_size, sharding, seed, start_step):
    axes = sharding.spec[0] if sharding.spec else ()
    axes = (axes,) if isinstance(axes, str) else axes or ()
    parts = math.prod(sharding.mesh.shape[axis] for axis in axes)
    if batch_size % parts:
        raise ValueError(f"{batch_size} rows do not divide into {parts} parts")

    def ready(step):
        start, stop, size = step * batch_size, (step + 1) * batch_size, len(data[0])
        first, last = start // size, (stop - 1) // size
        orders = [epoch_order(seed, epoch, size) for epoch in range(first, last + 1)]
        rows = np.concatenate(orders)[start - first * size : stop - first * size]
        return jax.tree.map(lambda array: place(array[rows], sharding), data)

    step, ahead = start_step, ready(start_step)
    while True:
        step, now, ahead = step + 1, ahead, ready(step + 1)
        yield now


# %% right="via single device arrays"
"""Puts every device's rows on it by hand, and joins the pieces."""


def batches(data, batch_size, sharding, seed, start_step):
    size = len(data[0])

    def spread(array):
        parts = sharding.addressable_devices_indices_map(array.shape)
        pieces = [jax.device_put(array[index], d) for d, index in parts.items()]
        return jax.make_array_from_single_device_arrays(array.shape, sharding, pieces)

    def ready(step):
        first, last = step * batch_size, (step + 1) * batch_size - 1
        epochs = np.arange(first // size, last // size + 1)
        line = np.hstack([epoch_order(seed, epoch, size) for epoch in epochs])
        rows = line[first - epochs[0] * size :][:batch_size]
        return tuple(map(spread, (array[rows] for array in data)))

    coming = ready(start_step)
    for step in itertools.count(start_step):
        here, coming = coming, ready(step + 1)
        yield here
