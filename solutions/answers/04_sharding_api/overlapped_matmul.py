# %% wrong="axis of the check" fails="same product"
# cause: a collective names an axis that is not bound: use the argument axis_name, or the name that pmap was given
"""Takes the axis's name for granted."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size("i")
    device, size = jax.lax.axis_index("i"), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    result = 0
    for step in range(num_devices):
        start = (device + step) % num_devices * size
        result += jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w
        if step < num_devices - 1:
            w = jax.lax.ppermute(w, "i", to_left)
    return result


# %% wrong="begins at piece 0" fails="same product"
# cause: each device began with the columns of piece 0
"""Takes columns in the order of the steps, on each device."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    size = len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    result = 0
    for step in range(num_devices):
        start = step * size
        result += jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w
        if step < num_devices - 1:
            w = jax.lax.ppermute(w, axis_name, to_left)
    return result


# %% wrong="begins at piece 0 to the right" fails="same product"
"""Takes columns in the order of the steps; pieces go to the right."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    size = len(w)
    to_right = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    result = 0
    for step in range(num_devices):
        start = step * size
        result += jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w
        if step < num_devices - 1:
            w = jax.lax.ppermute(w, axis_name, to_right)
    return result


# %% wrong="chooses columns by a product" fails="no extra arithmetic"
"""Takes the columns of x by a product with ones and zeros: more work than x @ W."""


def overlapped_matmul(x, w, axis_name):
    size, me = jax.lax.axis_size(axis_name), jax.lax.axis_index(axis_name)
    to_the_left = [(d, (d - 1) % size) for d in range(size)]
    result, columns = 0.0, x.reshape(len(x), size, len(w))
    for step in range(size):
        piece = jax.nn.one_hot((me + step) % size, size)
        result += jnp.tensordot(columns, piece, (1, 0)) @ w
        if step + 1 < size:
            w = jax.lax.ppermute(w, axis_name, to_the_left)
    return result


# %% wrong="columns travel" fails="sends wait for no product; number of sends"
"""Columns of `x` go to their pieces, sums come back."""


def overlapped_matmul(x, w, axis_name):
    count = jax.lax.axis_size(axis_name)
    parts = x.reshape(len(x), count, len(w))
    columns = jax.lax.all_to_all(parts, axis_name, 1, 0)
    return jax.lax.psum_scatter(columns @ w, axis_name)


# %% wrong="eight devices" fails="same product"
"""Takes eight devices for granted."""


def overlapped_matmul(x, w, axis_name):
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % 8) for d in range(8)]
    result = 0
    for step in range(8):
        start = (device + step) % 8 * size
        result += jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w
        if step < 7:
            w = jax.lax.ppermute(w, axis_name, to_left)
    return result


# %% wrong="gathers" fails="no full copy of W; sends wait for no product; number of sends"
# cause: all pieces were gathered before the product
"""Gathers all pieces, then multiplies once."""


def overlapped_matmul(x, w, axis_name):
    return x @ jax.lax.all_gather(w, axis_name, tiled=True)


# %% wrong="gathers by sends" fails="no full copy of W; sends wait for no product"
"""Collects all pieces by sends, then multiplies once."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    whole = jnp.zeros((num_devices, *w.shape), w.dtype)
    for step in range(num_devices):
        whole = whole.at[(device + step) % num_devices].set(w)
        if step < num_devices - 1:
            w = jax.lax.ppermute(w, axis_name, to_left)
    return x @ whole.reshape(num_devices * size, -1)


# %% wrong="gathers if x is tall" fails="no full copy of W"
"""Collects all pieces but its own, though only where `x` has many rows."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    result, whole = 0, jnp.zeros((num_devices, *w.shape), w.dtype)
    for step in range(num_devices):
        piece = (device + step) % num_devices
        if len(x) > 30 and step:
            whole = whole.at[piece].set(w)
        else:
            result += jax.lax.dynamic_slice_in_dim(x, piece * size, size, axis=1) @ w
        if step < num_devices - 1:
            w = jax.lax.ppermute(w, axis_name, to_left)
    if len(x) > 30:
        result += x @ whole.reshape(num_devices * size, -1)
    return result


# %% wrong="halves what it sends" fails="same product"
"""Sends pieces in 16 bits."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    result = 0
    for step in range(num_devices):
        start = (device + step) % num_devices * size
        result += jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w
        if step < num_devices - 1:
            w = jax.lax.ppermute(w.astype(jnp.bfloat16), axis_name, to_left)
            w = w.astype(x.dtype)
    return result


# %% wrong="multiplies all columns" fails="no full copy of W; no extra arithmetic"
"""Multiplies each piece by all columns, and takes what belongs to it."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    parts = x.reshape(len(x), num_devices, size)
    result = 0
    for step in range(num_devices):
        products = jnp.einsum("mdk,kn->dmn", parts, w)
        result += products[(device + step) % num_devices]
        if step < num_devices - 1:
            w = jax.lax.ppermute(w, axis_name, to_left)
    return result


# %% wrong="other side" fails="same product"
# cause: the pieces come from the other side
"""Sends to the right, and takes columns as if pieces came from there."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_right = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    result = 0
    for step in range(num_devices):
        start = (device + step) % num_devices * size
        result += jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w
        if step < num_devices - 1:
            w = jax.lax.ppermute(w, axis_name, to_right)
    return result


# %% wrong="own piece" fails="same product; sends wait for no product"
# cause: each device multiplied its own piece alone
"""Multiplies by its own piece alone."""


def overlapped_matmul(x, w, axis_name):
    start = jax.lax.axis_index(axis_name) * len(w)
    return jax.lax.dynamic_slice_in_dim(x, start, len(w), axis=1) @ w


# %% wrong="pads to a multiple of eight" fails="no extra arithmetic"
"""Pads the contraction to a multiple of eight, as if the chip asked for it."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    more, result = -size % 8, 0
    for step in range(num_devices):
        start = (device + step) % num_devices * size
        columns = jax.lax.dynamic_slice_in_dim(x, start, size, axis=1)
        padded = jnp.pad(columns, ((0, 0), (0, more)))
        result += padded @ jnp.pad(w, ((0, more), (0, 0)))
        if step < num_devices - 1:
            w = jax.lax.ppermute(w, axis_name, to_left)
    return result


# %% wrong="products stacked by scan" fails="no full copy of W"
"""Keeps all products until the last, and adds them up then."""


def overlapped_matmul(x, w, axis_name):
    count, me = jax.lax.axis_size(axis_name), jax.lax.axis_index(axis_name)
    k = w.shape[0]
    left = [(d, (d - 1) % count) for d in range(count)]

    def product(step, w):
        piece = (me + step) % count
        return jax.lax.dynamic_slice_in_dim(x, piece * k, k, axis=1) @ w

    def body(w, step):
        return jax.lax.ppermute(w, axis_name, left), product(step, w)

    w, products = jax.lax.scan(body, w, jnp.arange(count - 1))
    return products.sum(axis=0) + product(count - 1, w)


# %% wrong="same columns" fails="same product"
# cause: all pieces met the same columns of x
"""Takes the columns of its own piece for all pieces."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    result = 0
    for step in range(num_devices):
        start = device * size
        result += jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w
        if step < num_devices - 1:
            w = jax.lax.ppermute(w, axis_name, to_left)
    return result


# %% wrong="sends home" fails="number of sends"
# cause: the last send brings each piece home, where it was used first
"""Sends once more than needed, after the last product too."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]

    def body(step, state):
        result, w = state
        start = (device + step) % num_devices * size
        part = jax.lax.dynamic_slice_in_dim(x, start, size, axis=1)
        return result + part @ w, jax.lax.ppermute(w, axis_name, to_left)

    result = jnp.zeros((len(x), w.shape[1]), x.dtype)
    return jax.lax.fori_loop(0, num_devices, body, (result, w))[0]


# %% wrong="sends part of the sum" fails="sends wait for no product"
"""Adds nothing of its sum to what it sends, but needs the sum for it."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    result = 0
    for step in range(num_devices):
        start = (device + step) % num_devices * size
        result += jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w
        if step < num_devices - 1:
            done = jnp.isfinite(result).any() | True
            w = jax.lax.ppermute(jnp.where(done, w, 0), axis_name, to_left)
    return result


# %% wrong="sends the sum too" fails="sends wait for no product; number of sends"
"""Sends the sum, too, and adds nothing of it."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    result = 0
    for step in range(num_devices):
        start = (device + step) % num_devices * size
        result += jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w
        if step < num_devices - 1:
            w, other = jax.lax.ppermute((w, result), axis_name, to_left)
            result += 0 * other
    return result


# %% wrong="waits for the product" fails="sends wait for no product"
"""A barrier keeps each send behind its product."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    result = 0
    for step in range(num_devices):
        start = (device + step) % num_devices * size
        result += jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w
        if step < num_devices - 1:
            result, w = jax.lax.optimization_barrier((result, w))
            w = jax.lax.ppermute(w, axis_name, to_left)
    return result


# %% wrong="waits in a loop" fails="sends wait for no product"
"""In a loop, a barrier keeps each send behind the product before it."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]

    def part(step, w):
        start = (device + step) % num_devices * size
        return jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w

    def body(step, state):
        w = jax.lax.ppermute(state[1], axis_name, to_left)
        return jax.lax.optimization_barrier((state[0] + part(step, w), w))

    return jax.lax.fori_loop(1, num_devices, body, (part(0, w), w))[0]


# %% right="via both directions"
"""Sends half of each piece to the left and half to the right."""


def overlapped_matmul(x, w, axis_name):
    count, device = jax.lax.axis_size(axis_name), jax.lax.axis_index(axis_name)
    parts = x.reshape(len(x), count, len(w))
    half = (w.shape[1] + 1) // 2
    halves = []
    for piece, way in ((w[:, :half], 1), (w[:, half:], -1)):
        pairs = [(d, (d + way) % count) for d in range(count)]
        result = parts[:, device] @ piece
        for step in range(1, count if piece.size else 1):
            piece = jax.lax.ppermute(piece, axis_name, pairs)
            result += parts[:, (device - way * step) % count] @ piece
        halves.append(result)
    return jnp.concatenate(halves, axis=1)


# %% right="via direct sends"
"""Sends the own piece to each device, without a ring."""


def overlapped_matmul(x, w, axis_name):
    count, device = jax.lax.axis_size(axis_name), jax.lax.axis_index(axis_name)
    parts = x.reshape(len(x), count, len(w))
    result = parts[:, device] @ w
    for shift in range(1, count):
        pairs = [(d, (d + shift) % count) for d in range(count)]
        piece = jax.lax.ppermute(w, axis_name, pairs)
        result = result + parts[:, (device - shift) % count] @ piece
    return result


# %% right="via einsum"
"""Takes a block of columns by its number, in a jitted function."""


def overlapped_matmul(x, w, axis_name):
    count = jax.lax.axis_size(axis_name)
    blocks = jnp.swapaxes(x.reshape(len(x), count, len(w)), 0, 1)

    @jax.jit
    def add(result, w, owner):
        return result + jnp.einsum("mk,kn->mn", jnp.take(blocks, owner, axis=0), w)

    owner = jax.lax.axis_index(axis_name)
    result = jnp.zeros((len(x), w.shape[1]), x.dtype)
    for step in range(count):
        result = add(result, w, owner)
        if step + 1 < count:
            ring = [((d + 1) % count, d) for d in range(count)]
            w, owner = jax.lax.ppermute(w, axis_name, ring), (owner + 1) % count
    return result


# %% right="via fori loop"
"""Sends the next piece in each round of a loop; the last one is multiplied after it."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]

    def part(step, w):
        start = (device + step) % num_devices * size
        return jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w

    def body(step, state):
        result, w = state
        return result + part(step, w), jax.lax.ppermute(w, axis_name, to_left)

    zeros = jnp.zeros((len(x), w.shape[1]))
    result, w = jax.lax.fori_loop(0, num_devices - 1, body, (zeros, w))
    return result + part(num_devices - 1, w)


# %% right="via scan"
"""Scans over the pieces but the last, to the right."""


def overlapped_matmul(x, w, axis_name):
    count = jax.lax.axis_size(axis_name)
    blocks = jnp.swapaxes(x.reshape(len(x), count, len(w)), 0, 1)
    order = (jax.lax.axis_index(axis_name) - jnp.arange(count)) % count
    blocks = blocks[order]
    to_right = [(d, (d + 1) % count) for d in range(count)]

    def step(carry, block):
        result, w = carry
        return (result + block @ w, jax.lax.ppermute(w, axis_name, to_right)), None

    start = jnp.zeros((len(x), w.shape[1])), w
    (result, w), _ = jax.lax.scan(step, start, blocks[:-1])
    return result + blocks[-1] @ w


# %% right="via sends first"
"""Writes all sends before the products: data flow is the same."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    pieces = [w]
    for _ in range(num_devices - 1):
        pieces.append(jax.lax.ppermute(pieces[-1], axis_name, to_left))
    parts = jnp.split(jnp.roll(x, -device * size, axis=1), num_devices, axis=1)
    return sum(part @ piece for part, piece in zip(parts, pieces, strict=True))


# %% right="via while loop"
"""Sends first in each round, and multiplies what was here before."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]

    def columns(step):
        start = (device + step) % num_devices * size
        return jax.lax.dynamic_slice_in_dim(x, start, size, axis=1)

    def body(state):
        step, w, result = state
        following = jax.lax.ppermute(w, axis_name, to_left)
        return step + 1, following, result + columns(step) @ w

    start = 0, w, jnp.zeros((len(x), w.shape[1]))
    last = num_devices - 1
    _, w, result = jax.lax.while_loop(lambda state: state[0] < last, body, start)
    return result + columns(last) @ w


# %% wrong="one product of all that came" fails="no full copy of W"
"""Multiplies its own piece, collects the others, and multiplies them at once."""


def overlapped_matmul(x, w, axis_name):
    D = jax.lax.axis_size(axis_name)
    d = jax.lax.axis_index(axis_name)
    K = len(w)
    perm = [(i, (i - 1) % D) for i in range(D)]
    out = jax.lax.dynamic_slice_in_dim(x, d * K, K, axis=1) @ w
    cols, pieces = [], []
    for s in range(1, D):
        w = jax.lax.ppermute(w, axis_name, perm)
        pieces.append(w)
        cols.append(jax.lax.dynamic_slice_in_dim(x, (d + s) % D * K, K, axis=1))
    if D > 1:
        out += jnp.concatenate(cols, 1) @ jnp.concatenate(pieces)
    return out


# %% wrong="products wait for all sends" fails="sends wait for no product"
"""A barrier keeps all products behind the last send."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    pieces = [w]
    for _ in range(num_devices - 1):
        pieces.append(jax.lax.ppermute(pieces[-1], axis_name, to_left))
    pieces = jax.lax.optimization_barrier(pieces)
    result = 0
    for step, w in enumerate(pieces):
        start = (device + step) % num_devices * size
        result += jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w
    return result


# %% wrong="products wait for the next piece" fails="sends wait for no product"
"""A barrier keeps each product behind the send of its piece."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    result = 0
    for step in range(num_devices):
        start = (device + step) % num_devices * size
        following = w
        if step < num_devices - 1:
            following = jax.lax.ppermute(w, axis_name, to_left)
            w, following = jax.lax.optimization_barrier((w, following))
        result += jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w
        w = following
    return result


# %% wrong="gathers between two" fails="number of sends"
# cause: all pieces were gathered before the product
"""Two devices gather: there is no third."""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    if num_devices == 2:
        return x @ jax.lax.all_gather(w, axis_name, tiled=True)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    result = 0
    for step in range(num_devices):
        start = (device + step) % num_devices * size
        result += jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w
        if step < num_devices - 1:
            w = jax.lax.ppermute(w, axis_name, to_left)
    return result


# %% right="via take"
"""Takes columns by their numbers."""


def overlapped_matmul(x, w, axis_name):
    D, me, K = jax.lax.axis_size(axis_name), jax.lax.axis_index(axis_name), len(w)
    left = [(i, (i - 1) % D) for i in reversed(range(D))]
    out = jnp.take(x, me * K + jnp.arange(K), axis=1) @ w
    for s in range(1, D):
        w = jax.lax.ppermute(w, axis_name, perm=left)
        piece = (me + s) % D
        out += jnp.take(x, piece * K + jnp.arange(K), axis=1) @ w
    return out


# %% right="via transposes"
"""Multiplies the transposes."""


def overlapped_matmul(x, w, axis_name):
    D, d = jax.lax.axis_size(axis_name), jax.lax.axis_index(axis_name)
    K = len(w)
    xt = x.T
    result = None
    for step in range(D):
        rows = jax.lax.dynamic_slice_in_dim(xt, (d + step) % D * K, K)
        part = w.T @ rows  # f32[N, M]
        result = part if result is None else result + part
        if step < D - 1:
            w = jax.lax.ppermute(w, axis_name, [((i + 1) % D, i) for i in range(D)])
    return result.T


# %% wrong="multiplies what the round sends" fails="sends wait for no product"
"""Waits in each round for the piece that it then multiplies."""


def overlapped_matmul(x, w, axis_name):
    D = jax.lax.axis_size(axis_name)
    d = jax.lax.axis_index(axis_name)
    k = len(w)
    to_left = [(i, (i - 1) % D) for i in range(D)]

    def part(step, w):
        return jax.lax.dynamic_slice_in_dim(x, (d + step) % D * k, k, axis=1) @ w

    def body(carry, step):
        w, total = carry
        w = jax.lax.ppermute(w, axis_name, to_left)
        return (w, total + part(step, w)), None

    (w, total), _ = jax.lax.scan(body, (w, part(0, w)), jnp.arange(1, D))
    return total


# %% wrong="gathers the pieces row by row" fails="sends wait for no product; number of sends; no extra arithmetic"
"""Gathers a row of each piece at a time: each product waits for what is sent."""


def overlapped_matmul(x, w, axis_name):
    x = x.reshape(len(x), -1, len(w))  # f32[M, D, K]
    result = 0
    for row in range(len(w)):
        result += x[:, :, row] @ jax.lax.all_gather(w[row], axis_name)
    return result
