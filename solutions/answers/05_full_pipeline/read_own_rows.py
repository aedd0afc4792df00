# %% wrong="all devices of the sharding" fails="right parts; own rows only"
"""Goes by the devices of the sharding, not by those that it is given."""


def read_own_rows(read, sharding, shape, devices):
    blocks, parts = {}, []
    for device, index in sharding.addressable_devices_indices_map(shape).items():
        first, last, _ = index[0].indices(shape[0])
        if first not in blocks:
            blocks[first] = read(first, last)
        parts.append(jax.device_put(blocks[first][:, *index[1:]], device))
    return parts


# %% wrong="all on the first device" fails="right parts"
"""Makes arrays without saying on which device."""


def read_own_rows(read, sharding, shape, devices):
    blocks, parts = {}, []
    for device in devices:
        rows, *others = sharding.devices_indices_map(shape)[device]
        first, last, _ = rows.indices(shape[0])
        if first not in blocks:
            blocks[first] = read(first, last)
        parts.append(jnp.asarray(blocks[first][:, *others]))
    return parts


# %% wrong="casts to float32" fails="right parts"
"""Makes every part float32."""


def read_own_rows(read, sharding, shape, devices):
    blocks, parts = {}, []
    for device in devices:
        rows, *others = sharding.devices_indices_map(shape)[device]
        first, last, _ = rows.indices(shape[0])
        if first not in blocks:
            blocks[first] = np.float32(read(first, last))
        parts.append(jax.device_put(blocks[first][:, *others], device))
    return parts


# %% wrong="cuts two axes" fails="right parts"
"""Cuts rows and columns alone: a third axis stays whole."""


def read_own_rows(read, sharding, shape, devices):
    where, known, parts = sharding.devices_indices_map(shape), {}, []
    for device in devices:
        own, *columns = where[device][:2]
        first, last, _ = own.indices(shape[0])
        if first not in known:
            known[first] = read(first, last)
        parts.append(jax.device_put(known[first][:, *columns], device))
    return parts


# %% wrong="empties the list of devices" fails="arguments stay"
"""Takes devices from the caller's list until none is left."""


def read_own_rows(read, sharding, shape, devices):
    places, rows_from, parts = sharding.devices_indices_map(tuple(shape)), {}, []
    while devices:
        device = devices.pop(0)
        rows, *others = places[device]
        first, last, _ = rows.indices(shape[0])
        if first not in rows_from:
            rows_from[first] = read(first, last)
        part = rows_from[first][:, *others]
        parts.append(jax.device_put(part, device))
    return parts


# %% wrong="keeps rows for later calls" fails="right parts; each row once; nothing is remembered"
"""Keeps what an earlier call has read."""


def read_own_rows(read, sharding, shape, devices, blocks={}):  # noqa: B006
    parts = []
    for device in devices:
        rows, *others = sharding.devices_indices_map(shape)[device]
        span = rows.indices(shape[0])
        if (span, shape) not in blocks:
            blocks[span, shape] = read(*span[:2])
        parts.append(jax.device_put(blocks[span, shape][:, *others], device))
    return parts


# %% wrong="reads all then cuts" fails="own rows only"
# cause: all rows of the array are read
"""Reads the whole array, then cuts it."""


def read_own_rows(read, sharding, shape, devices):
    whole, places = read(0, shape[0]), sharding.devices_indices_map(shape)
    return [jax.device_put(whole[places[device]], device) for device in devices]


# %% wrong="reads for each device" fails="each row once"
# cause: each device reads its rows anew
"""Reads a device's rows even if another's are the same."""


def read_own_rows(read, sharding, shape, devices):
    parts = []
    for device in devices:
        rows, *others = sharding.devices_indices_map(shape)[device]
        first, last, _ = rows.indices(shape[0])
        parts.append(jax.device_put(read(first, last)[:, *others], device))
    return parts


# %% wrong="reads from the first to the last" fails="own rows only"
# cause: all rows of the array are read
"""Reads one range from the first row held to the last."""


def read_own_rows(read, sharding, shape, devices):
    places = sharding.devices_indices_map(shape)
    spans = [places[device][0].indices(shape[0])[:2] for device in devices]
    first, last = min(s for s, _ in spans), max(e for _, e in spans)
    block, parts = read(first, last), []
    for device, (start, stop) in zip(devices, spans, strict=True):
        part = block[start - first : stop - first, *places[device][1:]]
        parts.append(jax.device_put(part, device))
    return parts


# %% wrong="remembers by the whole index" fails="each row once"
# cause: each device reads its rows anew
"""Reads rows once for each range of columns."""


def read_own_rows(read, sharding, shape, devices):
    blocks, parts = {}, []
    for device in devices:
        rows, *others = sharding.devices_indices_map(shape)[device]
        first, last, _ = rows.indices(shape[0])
        key = first, str(others)
        if key not in blocks:
            blocks[key] = read(first, last)[:, *others]
        parts.append(jax.device_put(blocks[key], device))
    return parts


# %% wrong="remembers rows of a read" fails="nothing is remembered"
"""Keeps rows by the function that read them, though they are others the next time."""

import functools


@functools.cache
def rows_once(read, first, last):
    return read(first, last)


def read_own_rows(read, sharding, shape, devices):
    where = sharding.devices_indices_map(tuple(shape))
    parts = []
    for device in devices:
        rows, *rest = where[device]
        first, last, _ = rows.indices(shape[0])
        part = rows_once(read, first, last)[(slice(None), *rest)]
        parts.append(jax.device_put(part, device))
    return parts


# %% wrong="rows must be split" fails="right parts"
"""Fails where all rows lie on each device: its slice has no numbers."""


def read_own_rows(read, sharding, shape, devices):
    blocks, parts = {}, []
    for device in devices:
        rows, *others = sharding.devices_indices_map(shape)[device]
        if rows.start not in blocks:
            blocks[rows.start] = read(rows.start, rows.stop)
        parts.append(jax.device_put(blocks[rows.start][:, *others], device))
    return parts


# %% wrong="shards of the whole array" fails="own rows only"
# cause: all rows of the array are read
"""Makes the global array, then takes the parts of its devices."""


def read_own_rows(read, sharding, shape, devices):
    blocks = {}

    def part_of(index):
        first, last, _ = index[0].indices(shape[0])
        if first not in blocks:
            blocks[first] = read(first, last)
        return blocks[first][:, *index[1:]]

    whole = jax.make_array_from_callback(shape, sharding, part_of)
    parts = {shard.device: shard.data for shard in whole.addressable_shards}
    return [parts[device] for device in devices]


# %% wrong="sorts the devices" fails="right parts"
"""Returns the parts by the devices' numbers."""


def read_own_rows(read, sharding, shape, devices):
    blocks, parts = {}, []
    for device in sorted(devices, key=lambda device: device.id):
        rows, *others = sharding.devices_indices_map(shape)[device]
        first, last, _ = rows.indices(shape[0])
        if first not in blocks:
            blocks[first] = read(first, last)
        parts.append(jax.device_put(blocks[first][:, *others], device))
    return parts


# %% wrong="splits rows by position" fails="right parts; own rows only; each row once"
"""Splits the rows evenly over the given devices, whatever the sharding says."""


def read_own_rows(read, sharding, shape, devices):
    size, parts = sharding.shard_shape(shape)[0], []
    for number, device in enumerate(devices):
        first = number * size % shape[0]
        parts.append(jax.device_put(read(first, first + size), device))
    return parts


# %% wrong="two axes alone" fails="right parts"
"""Takes every array for a matrix."""


def read_own_rows(read, sharding, shape, devices):
    blocks, parts = {}, []
    for device in devices:
        rows, columns = sharding.devices_indices_map(shape)[device][:2]
        first, last, _ = rows.indices(shape[0])
        if first not in blocks:
            blocks[first] = read(first, last)
        parts.append(jax.device_put(blocks[first][:, columns], device))
    return parts


# %% wrong="whole rows" fails="right parts"
"""Gives each device whole rows, though it holds some columns."""


def read_own_rows(read, sharding, shape, devices):
    blocks, parts = {}, []
    for device in devices:
        first, last, _ = sharding.devices_indices_map(shape)[device][0].indices(
            shape[0]
        )
        if first not in blocks:
            blocks[first] = read(first, last)
        parts.append(jax.device_put(blocks[first], device))
    return parts


# %% right="via a cache"
"""Lets a cache of this call remember what was read."""

import functools


def read_own_rows(read, sharding, shape, devices):
    once = functools.cache(read)
    found = []
    for device in devices:
        index = sharding.devices_indices_map(shape)[device]
        first = index[0].start or 0
        last = shape[0] if index[0].stop is None else index[0].stop
        found.append(
            jax.device_put(once(first, last)[(slice(None), *index[1:])], device)
        )
    return found


# %% right="via a class"
"""Keeps the rows of one call in an object."""


class Rows:
    def __init__(self, read, num_rows):
        self.read, self.num_rows, self.blocks = read, num_rows, {}

    def __getitem__(self, index):
        span = index[0].indices(self.num_rows)[:2]
        if span not in self.blocks:
            self.blocks[span] = self.read(*span)
        return self.blocks[span][(slice(None), *index[1:])]


def read_own_rows(read, sharding, shape, devices):
    rows, places = Rows(read, shape[0]), sharding.devices_indices_map(shape)
    return [jax.device_put(rows[places[device]], device) for device in devices]


# %% right="via groups of devices"
"""Groups the devices by their rows, and reads for each group."""


def read_own_rows(read, sharding, shape, devices):
    groups, parts = {}, {}
    places = sharding.devices_indices_map(shape)
    for device in devices:
        groups.setdefault(places[device][0].indices(shape[0]), []).append(device)
    for (first, last, _), group in groups.items():
        block = read(first, last)
        for device in group:
            columns = (slice(None), *places[device][1:])
            parts[device] = jax.device_put(block[columns], device)
    return [parts[device] for device in devices]


# %% right="via joined ranges"
"""Joins ranges that touch, so that one call of read serves several."""


def read_own_rows(read, sharding, shape, devices):
    places = sharding.devices_indices_map(shape)
    spans = sorted({places[d][0].indices(shape[0])[:2] for d in devices})
    joined = [list(spans[0])]
    for first, last in spans[1:]:
        if first == joined[-1][1]:
            joined[-1][1] = last
        else:
            joined.append([first, last])
    read_blocks = [(first, last, read(first, last)) for first, last in joined]
    parts = []
    for device in devices:
        first, last, _ = places[device][0].indices(shape[0])
        for begin, end, block in read_blocks:
            if begin <= first and last <= end:
                index = (slice(first - begin, last - begin), *places[device][1:])
                parts.append(jnp.asarray(block[index], device=device))
    return parts


# %% right="via one device put"
"""Places all parts by one call, with a sharding for each."""

from jax.sharding import SingleDeviceSharding


def read_own_rows(read, sharding, shape, devices):
    indices = [sharding.devices_indices_map(shape)[device] for device in devices]
    firsts = [index[0].start or 0 for index in indices]
    num_rows = sharding.shard_shape(shape)[0]
    blocks = {first: read(first, first + num_rows) for first in {*firsts}}
    parts = [blocks[f][:, *i[1:]] for f, i in zip(firsts, indices, strict=True)]
    return jax.device_put(parts, [SingleDeviceSharding(device) for device in devices])


# %% right="via single rows"
"""Reads row by row, each at most once."""


def read_own_rows(read, sharding, shape, devices):
    places, known, parts = sharding.devices_indices_map(shape), {}, []
    for device in devices:
        rows, *others = places[device]
        for row in range(shape[0])[rows]:
            if row not in known:
                known[row] = read(row, row + 1)
        whole = np.concatenate([known[row] for row in range(shape[0])[rows]])
        parts.append(jax.device_put(whole[(slice(None), *others)], device))
    return parts


# %% right="via two rounds"
"""Reads all distinct ranges first, then cuts."""


def read_own_rows(read, sharding, shape, devices):
    indices = sharding.devices_indices_map(tuple(shape))
    ranges = {indices[device][0].indices(shape[0])[:2] for device in devices}
    blocks = {span: read(*span) for span in sorted(ranges)}

    def part(device):
        rows, *others = indices[device]
        return blocks[rows.indices(shape[0])[:2]][
            (..., *[]) if not others else (slice(None), *others)
        ]

    return [jax.device_put(part(device), device) for device in devices]
