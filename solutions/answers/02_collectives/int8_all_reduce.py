# %% wrong="adds in int8" fails="error bound"
# cause: the sum of int8 numbers does not fit into int8
"""Rounds with a common scale, and lets psum add up the int8 numbers."""


def int8_all_reduce(x, axis_name):
    largest = lax.pmax(jnp.abs(x).max(), axis_name)
    return from_int8(lax.psum(to_int8(x, largest), axis_name), largest)


# %% wrong="each its own scale" fails="error bound; identical replicas"
# cause: whole numbers of different scales were added up
"""Rounds with each device's own scale, and adds the whole numbers up."""


def int8_all_reduce(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    largest = jnp.abs(x).max()
    pieces = to_int8(x, largest).reshape(num_devices, -1)
    arrived = lax.all_to_all(pieces, axis_name, 0, 0).astype(jnp.int32)
    piece = jnp.round(arrived.sum(axis=0) / num_devices).astype(jnp.int8)
    whole = lax.all_gather(piece, axis_name, tiled=True)
    return from_int8(whole, largest) * num_devices


# %% wrong="sends f32" fails="a quarter of the bytes"
# cause: f32 numbers travel
"""Rounds to eight bits, and sends what it has turned back into 32."""


def int8_all_reduce(x, axis_name):
    largest = lax.pmax(jnp.abs(x).max(), axis_name)
    return lax.psum(from_int8(to_int8(x, largest), largest), axis_name)


# %% wrong="adds as i32" fails="a quarter of the bytes"
# cause: int8 numbers are added up on the way as i32: 32 bits travel
"""Makes room for the sums of int8 numbers, and so sends 32 bits of each."""


def int8_all_reduce(x, axis_name):
    largest = lax.pmax(jnp.abs(x).max(), axis_name)
    whole = to_int8(x, largest).astype(jnp.int32)
    return from_int8(lax.psum(whole, axis_name), largest)


# %% wrong="bfloat16" fails="a quarter of the bytes"
"""Sends bfloat16: half of the bytes."""


def int8_all_reduce(x, axis_name):
    piece = lax.psum_scatter(x.astype(jnp.bfloat16), axis_name, tiled=True)
    return lax.all_gather(piece, axis_name, tiled=True).astype(jnp.float32)


# %% wrong="gathers all" fails="a quarter of the bytes"
# cause: each device gets all blocks in full: it adds up one piece
"""Gathers all int8 blocks on every device: D / 2 times the bytes."""


def int8_all_reduce(x, axis_name):
    largest = lax.pmax(jnp.abs(x).max(), axis_name)
    blocks = lax.all_gather(to_int8(x, largest), axis_name)
    return from_int8(blocks, largest).sum(axis=0)


# %% wrong="hands on f32" fails="a quarter of the bytes"
# cause: f32 numbers travel
"""Sends int8 in the first half, and the finished sums in f32."""


def int8_all_reduce(x, axis_name):
    largest = lax.pmax(jnp.abs(x).max(), axis_name)
    pieces = to_int8(x, largest).reshape(lax.axis_size(axis_name), -1)
    arrived = lax.all_to_all(pieces, axis_name, 0, 0)
    return lax.all_gather(
        from_int8(arrived, largest).sum(axis=0), axis_name, tiled=True
    )


# %% wrong="room for the sum" fails="error bound"
"""Rounds to a range of 127 / D, so that sums fit: few bits are left of each number."""


def int8_all_reduce(x, axis_name):
    largest = lax.axis_size(axis_name) * lax.pmax(jnp.abs(x).max(), axis_name)
    piece = lax.psum_scatter(to_int8(x, largest), axis_name, tiled=True)
    return from_int8(lax.all_gather(piece, axis_name, tiled=True), largest)


# %% wrong="old scale for sums" fails="error bound"
# cause: a sum is larger than the largest number: it needs its own scale
"""Rounds the sums with the scale of what was added: the large ones are cut off."""


def int8_all_reduce(x, axis_name):
    largest = lax.pmax(jnp.abs(x).max(), axis_name)
    pieces = to_int8(x, largest).reshape(lax.axis_size(axis_name), -1)
    arrived = lax.all_to_all(pieces, axis_name, 0, 0)
    total = jnp.clip(from_int8(arrived, largest).sum(axis=0), -largest, largest)
    return from_int8(
        lax.all_gather(to_int8(total, largest), axis_name, tiled=True), largest
    )


# %% wrong="keeps its own piece exact" fails="identical replicas"
# cause: each device kept its own piece as it was before rounding
"""Puts its own sums into the result as they were before they were rounded."""


def int8_all_reduce(x, axis_name):
    num_devices, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    largest = lax.pmax(jnp.abs(x).max(), axis_name)
    pieces = to_int8(x, largest).reshape(num_devices, -1)
    piece = from_int8(lax.all_to_all(pieces, axis_name, 0, 0), largest).sum(axis=0)
    largest = num_devices * largest
    every = from_int8(lax.all_gather(to_int8(piece, largest), axis_name), largest)
    return every.at[me].set(piece).ravel()


# %% wrong="cuts digits off" fails="error bound"
"""Rounds towards zero, and never up."""


def int8_all_reduce(x, axis_name):
    num_devices = lax.axis_size(axis_name)

    def cut(x, largest):
        return (127 * x / jnp.where(largest > 0, largest, 1)).astype(jnp.int8)

    largest = lax.pmax(jnp.abs(x).max(), axis_name)
    pieces = cut(x, largest).reshape(num_devices, -1)
    piece = from_int8(lax.all_to_all(pieces, axis_name, 0, 0), largest).sum(axis=0)
    largest = num_devices * largest
    return from_int8(
        lax.all_gather(cut(piece, largest), axis_name, tiled=True), largest
    )


# %% wrong="eight devices" fails="any axis"
"""Cuts into as many pieces as the lesson's examples have devices."""


def int8_all_reduce(x, axis_name):
    largest = lax.pmax(jnp.abs(x).max(), axis_name)
    pieces = to_int8(x, largest).reshape(8, -1)
    piece = from_int8(lax.all_to_all(pieces, axis_name, 0, 0), largest).sum(axis=0)
    rounded = to_int8(piece, 8 * largest)
    return from_int8(lax.all_gather(rounded, axis_name, tiled=True), 8 * largest)


# %% wrong="fixed axis name" fails="any axis"
# cause: a collective names an axis that is not bound: use the argument axis_name, or the name that pmap was given
"""Writes the axis name of the lesson's examples into the function."""


def int8_all_reduce(x, axis_name):
    num_devices = lax.axis_size("i")
    largest = lax.pmax(jnp.abs(x).max(), "i")
    pieces = to_int8(x, largest).reshape(num_devices, -1)
    piece = from_int8(lax.all_to_all(pieces, "i", 0, 0), largest).sum(axis=0)
    largest = num_devices * largest
    return from_int8(lax.all_gather(to_int8(piece, largest), "i", tiled=True), largest)


# %% right="each its own scale, sent along"
"""Gathers the devices' scales, one number of each."""


def int8_all_reduce(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    own = jnp.abs(x).max()
    scales = lax.all_gather(own, axis_name)[:, None]
    pieces = to_int8(x, own).reshape(num_devices, -1)
    arrived = lax.all_to_all(pieces, axis_name, 0, 0)
    piece = from_int8(arrived, scales).sum(axis=0)
    own = jnp.abs(piece).max()
    scales = lax.all_gather(own, axis_name)[:, None]
    return from_int8(lax.all_gather(to_int8(piece, own), axis_name), scales).ravel()


# %% right="the sums' own common scale"
"""Asks for the largest sum, too, instead of the largest possible one."""


def int8_all_reduce(x, axis_name):
    def common(x):
        return lax.pmax(jnp.max(jnp.abs(x)), axis_name)

    top = common(x)
    q = lax.all_to_all(to_int8(x, top), axis_name, 0, 0, tiled=True)
    total = q.reshape(lax.axis_size(axis_name), -1).astype(jnp.int32).sum(0)
    total = total * (top / 127)
    top = common(total)
    return from_int8(lax.all_gather(to_int8(total, top), axis_name, tiled=True), top)


# %% right="a scale for each block"
"""Rounds blocks of 256 numbers, or of what there is, each with a scale of its own."""


def int8_all_reduce(x, axis_name):
    D = lax.axis_size(axis_name)

    def blocks(pieces):  # (..., blocks, numbers)
        size = pieces.shape[-1]
        width = 256 if size % 256 == 0 else size
        return pieces.reshape(*pieces.shape[:-1], -1, width)

    mine = blocks(x.reshape(D, -1))
    tops = jnp.abs(mine).max(axis=-1, keepdims=True)
    q, tops = lax.all_to_all((to_int8(mine, tops), tops), axis_name, 0, 0)
    total = from_int8(q, tops).sum(axis=0)
    tops = jnp.abs(total).max(axis=-1, keepdims=True)
    q, tops = lax.all_gather((to_int8(total, tops), tops), axis_name)
    return from_int8(q, tops).reshape(x.shape)


# %% right="sends pieces one by one"
"""Sends each piece straight to its device by ppermute, then around the ring."""


def int8_all_reduce(x, axis_name):
    D, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    top = lax.pmax(jnp.abs(x).max(), axis_name)
    pieces = to_int8(x, top).reshape(D, -1)
    total = from_int8(pieces[me], top)
    for away in range(1, D):
        pairs = [(d, (d + away) % D) for d in range(D)]
        total += from_int8(lax.ppermute(pieces[(me + away) % D], axis_name, pairs), top)
    travelling = to_int8(total, D * top)
    result = jnp.zeros_like(pieces).at[me].set(travelling)
    ring = [(d, (d + 1) % D) for d in range(D)]
    for step in range(1, D):
        travelling = lax.ppermute(travelling, axis_name, ring)
        result = result.at[(me - step) % D].set(travelling)
    return from_int8(result, D * top).ravel()


# %% right="rounds by itself"
"""Rounds with floor, in numbers of its own, and packs the scales' maximum differently."""


def int8_all_reduce(x, axis_name):
    D = lax.axis_size(axis_name)
    step = jnp.max(lax.all_gather(jnp.abs(x).max(), axis_name)) / 127
    step = jnp.maximum(step, 1e-30)
    whole = jnp.floor(x / step + 0.5).astype(jnp.int8)
    arrived = lax.all_to_all(whole.reshape(D, -1), axis_name, 0, 0, tiled=True)
    total = arrived.astype(jnp.float32).sum(axis=0)  # in steps, 127 * D at most
    rounded = jnp.floor(total / D + 0.5).astype(jnp.int8)
    every = lax.all_gather(rounded, axis_name, tiled=True)
    return every.astype(jnp.float32) * (D * step)


# %% right="four numbers in a word"
"""Packs four int8 numbers into a word of 32 bits before they travel."""


def int8_all_reduce(x, axis_name):
    D = lax.axis_size(axis_name)

    def packed(q):  # (..., k) int8 to (..., k / 4) u32
        q = jnp.pad(q, [(0, 0)] * (q.ndim - 1) + [(0, -q.shape[-1] % 4)])
        return lax.bitcast_convert_type(q.reshape(*q.shape[:-1], -1, 4), jnp.uint32)

    def unpacked(words, size):
        q = lax.bitcast_convert_type(words, jnp.int8)
        return q.reshape(*words.shape[:-1], -1)[..., :size]

    top = lax.pmax(jnp.abs(x).max(), axis_name)
    size = len(x) // D
    sent = packed(to_int8(x, top).reshape(D, size))
    arrived = unpacked(lax.all_to_all(sent, axis_name, 0, 0), size)
    total = from_int8(arrived, top).sum(axis=0)
    every = lax.all_gather(packed(to_int8(total, D * top)), axis_name)
    return from_int8(unpacked(every, size), D * top).ravel()
