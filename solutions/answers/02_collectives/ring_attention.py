# %% wrong="a bound for the largest" fails="no overflow"
# cause: exp overflows, or gives zeros alone: subtract each row's largest score so far
"""Subtracts a bound of the scores, which may be far above them."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    total, weighted = 0.0, 0.0
    longest = jnp.linalg.norm(k, axis=1).max()
    top = jnp.linalg.norm(q, axis=1, keepdims=True) * longest / q.shape[1] ** 0.5
    for step in range(num_devices):
        powers = jnp.exp(q @ k.T / jnp.sqrt(q.shape[1]) - top)
        total, weighted = total + powers.sum(1), weighted + powers @ v
        if step < num_devices - 1:
            k, v = lax.ppermute((k, v), axis_name, pairs)
    return weighted / total[:, None]


# %% wrong="averages the blocks" fails="exact attention"
# cause: each block got a softmax of its own, and these were averaged
"""Takes each block's softmax alone, and their mean."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    result = 0
    for step in range(num_devices):
        result = result + jax.nn.softmax(q @ k.T / jnp.sqrt(q.shape[1])) @ v
        if step < num_devices - 1:
            k, v = lax.ppermute((k, v), axis_name, pairs)
    return result / num_devices


# %% wrong="collects the blocks" fails="nothing is stacked"
"""Lets the blocks travel, but keeps them all, and the scores of all."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    keys, values = [k], [v]
    for _ in range(num_devices - 1):
        keys.append(lax.ppermute(keys[-1], axis_name, pairs))
        values.append(lax.ppermute(values[-1], axis_name, pairs))
    scores = q @ jnp.concatenate(keys).T / jnp.sqrt(q.shape[1])
    return jax.nn.softmax(scores) @ jnp.concatenate(values)


# %% wrong="collects the scores" fails="nothing is stacked"
"""Keeps the scores of all blocks, and adds the values afterwards."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    scores = []
    for step in range(num_devices):
        scores.append(q @ k.T / q.shape[1] ** 0.5)
        if step < num_devices - 1:
            k = lax.ppermute(k, axis_name, pairs)
    weights = jax.nn.softmax(jnp.stack(scores), axis=(0, 2))
    total = weights[0] @ v
    for step in range(1, num_devices):
        v = lax.ppermute(v, axis_name, pairs)
        total = total + weights[step] @ v
    return total


# %% wrong="divides by the values width" fails="exact attention"
"""Divides by the root of the values' width, not of the keys'."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    top, total, weighted = -jnp.inf, 0.0, 0.0
    for step in range(num_devices):
        scores = q @ k.T / jnp.sqrt(v.shape[1])
        new = jnp.maximum(top, scores.max(1, keepdims=True))
        powers, fading = jnp.exp(scores - new), jnp.exp(top - new)
        total = fading * total + powers.sum(1, keepdims=True)
        weighted = fading * weighted + powers @ v
        top = new
        if step < num_devices - 1:
            k, v = lax.ppermute((k, v), axis_name, pairs)
    return weighted / total


# %% wrong="eight devices" fails="any axis"
"""Writes the check's devices into the code."""


def ring_attention(q, k, v, axis_name):
    num_devices = 8
    pairs = [(d, (d + 1) % 8) for d in range(8)]
    top, total, weighted = -jnp.inf, 0.0, 0.0
    for step in range(num_devices):
        scores = q @ k.T / jnp.sqrt(q.shape[1])
        new = jnp.maximum(top, scores.max(1, keepdims=True))
        powers, fading = jnp.exp(scores - new), jnp.exp(top - new)
        total = fading * total + powers.sum(1, keepdims=True)
        weighted = fading * weighted + powers @ v
        top = new
        if step < num_devices - 1:
            k, v = lax.ppermute((k, v), axis_name, pairs)
    return weighted / total


# %% wrong="gathers" fails="nothing is stacked; only keys and values travel"
# cause: all blocks were gathered on every device
"""Gathers all keys and values, and computes as one device would."""


def ring_attention(q, k, v, axis_name):
    keys = lax.all_gather(k, axis_name, tiled=True)
    values = lax.all_gather(v, axis_name, tiled=True)
    return jax.nn.softmax(q @ keys.T / jnp.sqrt(q.shape[1])) @ values


# %% wrong="halves what it sends" fails="exact attention"
"""Sends keys and values in 16 bits."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    top, total, weighted = -jnp.inf, 0.0, 0.0
    for step in range(num_devices):
        scores = q @ k.T / jnp.sqrt(q.shape[1])
        new = jnp.maximum(top, scores.max(1, keepdims=True))
        powers, fading = jnp.exp(scores - new), jnp.exp(top - new)
        total = fading * total + powers.sum(1, keepdims=True)
        weighted = fading * weighted + powers @ v
        top = new
        if step < num_devices - 1:
            sent = jax.tree.map(lambda a: a.astype(jnp.bfloat16), (k, v))
            sent = lax.ppermute(sent, axis_name, pairs)
            k, v = jax.tree.map(lambda a: a.astype(q.dtype), sent)
    return weighted / total


# %% wrong="largest of its own block" fails="no overflow"
# cause: exp overflows, or gives zeros alone: subtract each row's largest score so far
"""Subtracts the largest score of the first block from all."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    top = (q @ k.T / jnp.sqrt(q.shape[1])).max(1, keepdims=True)
    total, weighted = 0.0, 0.0
    for step in range(num_devices):
        powers = jnp.exp(q @ k.T / jnp.sqrt(q.shape[1]) - top)
        total, weighted = total + powers.sum(1), weighted + powers @ v
        if step < num_devices - 1:
            k, v = lax.ppermute((k, v), axis_name, pairs)
    return weighted / total[:, None]


# %% wrong="no largest" fails="no overflow"
# cause: exp overflows, or gives zeros alone: subtract each row's largest score so far
"""Sums the exponentials as they are."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    total, weighted = 0.0, 0.0
    for step in range(num_devices):
        powers = jnp.exp(q @ k.T / jnp.sqrt(q.shape[1]))
        total, weighted = total + powers.sum(1), weighted + powers @ v
        if step < num_devices - 1:
            k, v = lax.ppermute((k, v), axis_name, pairs)
    return weighted / total[:, None]


# %% wrong="not faded" fails="exact attention"
# cause: a larger score came, and earlier sums were not multiplied
"""Adds powers from which another largest score was subtracted."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    top, total, weighted = -jnp.inf, 0.0, 0.0
    for step in range(num_devices):
        scores = q @ k.T / jnp.sqrt(q.shape[1])
        new = jnp.maximum(top, scores.max(1, keepdims=True))
        powers, fading = jnp.exp(scores - new), 1
        total = fading * total + powers.sum(1, keepdims=True)
        weighted = fading * weighted + powers @ v
        top = new
        if step < num_devices - 1:
            k, v = lax.ppermute((k, v), axis_name, pairs)
    return weighted / total


# %% wrong="not scaled" fails="exact attention"
# cause: the scores were not divided by sqrt(F)
"""Leaves out the division by sqrt(F)."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    top, total, weighted = -jnp.inf, 0.0, 0.0
    for step in range(num_devices):
        scores = q @ k.T
        new = jnp.maximum(top, scores.max(1, keepdims=True))
        powers, fading = jnp.exp(scores - new), jnp.exp(top - new)
        total = fading * total + powers.sum(1, keepdims=True)
        weighted = fading * weighted + powers @ v
        top = new
        if step < num_devices - 1:
            k, v = lax.ppermute((k, v), axis_name, pairs)
    return weighted / total


# %% wrong="own block" fails="exact attention"
# cause: each device looked at its own keys alone
"""Looks at the device's own positions."""


def ring_attention(q, k, v, axis_name):
    return jax.nn.softmax(q @ k.T / jnp.sqrt(q.shape[1]), axis=-1) @ v


# %% wrong="powers of two" fails="any axis"
"""Reaches all devices by distances that exist for powers of two alone."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    top, total, weighted = -jnp.inf, 0.0, 0.0
    for step in range(num_devices):
        if step:
            pairs = [
                (d, d ^ step) for d in range(num_devices) if d ^ step < num_devices
            ]
            keys, values = lax.ppermute((k, v), axis_name, pairs)
        else:
            keys, values = k, v
        scores = q @ keys.T / jnp.sqrt(q.shape[1])
        new = jnp.maximum(top, scores.max(1, keepdims=True))
        powers, fading = jnp.exp(scores - new), jnp.exp(top - new)
        total = fading * total + powers.sum(1, keepdims=True)
        weighted = fading * weighted + powers @ values
        top = new
    return weighted / total


# %% wrong="queries travel" fails="only keys and values travel"
"""Sends queries and half-done results around in place of keys and values."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    rows = q[:, :1] * 0
    state = q, rows - jnp.inf, rows, rows * v[:1]
    for _ in range(num_devices):
        q, top, total, weighted = state
        scores = q @ k.T / jnp.sqrt(q.shape[1])
        new = jnp.maximum(top, scores.max(1, keepdims=True))
        powers, fading = jnp.exp(scores - new), jnp.exp(top - new)
        total = fading * total + powers.sum(1, keepdims=True)
        weighted = fading * weighted + powers @ v
        state = lax.ppermute((q, new, total, weighted), axis_name, pairs)
    return state[3] / state[2]


# %% wrong="sends home" fails="only keys and values travel"
# cause: the last send brings each block home, where it was used first
"""Sends once more than needed: the blocks come home."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]

    def add(_, state):
        k, v, top, total, weighted = state
        scores = q @ k.T / jnp.sqrt(q.shape[1])
        new = jnp.maximum(top, scores.max(1))
        powers, fading = jnp.exp(scores - new[:, None]), jnp.exp(top - new)
        total = fading * total + powers.sum(1)
        weighted = fading[:, None] * weighted + powers @ v
        k, v = lax.ppermute((k, v), axis_name, pairs)
        return k, v, new, total, weighted

    rows = q[:, 0]
    start = k, v, rows * 0 - jnp.inf, rows * 0, rows[:, None] * v[:1] * 0
    *_, total, weighted = lax.fori_loop(0, num_devices, add, start)
    return weighted / total[:, None]


# %% wrong="sends the queries too" fails="only keys and values travel"
# cause: the queries were sent, too: they stay
"""Lets the queries travel along, which nobody needs."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    away = q
    top, total, weighted = -jnp.inf, 0.0, 0.0
    for step in range(num_devices):
        scores = q @ k.T / jnp.sqrt(q.shape[1])
        new = jnp.maximum(top, scores.max(1, keepdims=True))
        powers, fading = jnp.exp(scores - new), jnp.exp(top - new)
        total = fading * total + powers.sum(1, keepdims=True)
        weighted = fading * weighted + powers @ v
        top = new
        if step < num_devices - 1:
            k, v, away = lax.ppermute((k, v, away), axis_name, pairs)
    return weighted / total + 0 * away[:, :1]


# %% wrong="stacks block results" fails="nothing is stacked"
"""Keeps each block's result and sums, and adds all of them at the end."""


def ring_attention(q, k, v, axis_name):
    size = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % size) for d in range(size)]
    tops, sums, results = [], [], []
    for step in range(size):
        scores = q @ k.T / q.shape[1] ** 0.5
        top = scores.max(axis=1, keepdims=True)
        powers = jnp.exp(scores - top)
        tops.append(top)
        sums.append(powers.sum(axis=1, keepdims=True))
        results.append(powers @ v)
        if step < size - 1:
            k, v = lax.ppermute((k, v), axis_name, pairs)
    tops, sums, results = map(jnp.stack, (tops, sums, results))
    share = jnp.exp(tops - tops.max(axis=0))
    return (share * results).sum(axis=0) / (share * sums).sum(axis=0)


# %% wrong="stacks results in a scan" fails="nothing is stacked"
"""Keeps each block's result beside the others, as what a scan stacks, and adds at last."""


def ring_attention(q, k, v, axis_name):
    size = lax.axis_size(axis_name)
    ring = [(d, (d + 1) % size) for d in range(size)]

    def look(k, v):
        scores = q @ k.T / q.shape[1] ** 0.5
        top = scores.max(1, keepdims=True)
        powers = jnp.exp(scores - top)
        return top, powers.sum(1, keepdims=True), powers @ v

    def step(blocks, _):
        blocks = lax.ppermute(blocks, axis_name, ring)
        return blocks, look(*blocks)

    tops, totals, results = lax.scan(step, (k, v), None, length=size - 1)[1]
    top, total, result = look(k, v)
    most = jnp.maximum(top, tops.max(0, initial=-jnp.inf))
    own, others = jnp.exp(top - most), jnp.exp(tops - most)
    total = own * total + (others * totals).sum(0)
    return (own * result + (others * results).sum(0)) / total


# %% wrong="starts at zero" fails="no overflow"
# cause: exp overflows, or gives zeros alone: subtract each row's largest score so far
"""Takes 0 for the largest score of no keys: low scores give zeros alone."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    top, total, weighted = jnp.zeros((len(q), 1)), 0.0, 0.0
    for step in range(num_devices):
        scores = q @ k.T / jnp.sqrt(q.shape[1])
        new = jnp.maximum(top, scores.max(1, keepdims=True))
        powers, fading = jnp.exp(scores - new), jnp.exp(top - new)
        total = fading * total + powers.sum(1, keepdims=True)
        weighted = fading * weighted + powers @ v
        top = new
        if step < num_devices - 1:
            k, v = lax.ppermute((k, v), axis_name, pairs)
    return weighted / total


# %% wrong="values the other way" fails="exact attention"
"""Sends keys to the right and values to the left: they meet others'."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    top, total, weighted = -jnp.inf, 0.0, 0.0
    for step in range(num_devices):
        scores = q @ k.T / jnp.sqrt(q.shape[1])
        new = jnp.maximum(top, scores.max(1, keepdims=True))
        powers, fading = jnp.exp(scores - new), jnp.exp(top - new)
        total = fading * total + powers.sum(1, keepdims=True)
        weighted = fading * weighted + powers @ v
        top = new
        if step < num_devices - 1:
            k = lax.ppermute(k, axis_name, pairs)
            v = lax.ppermute(v, axis_name, [(b, a) for a, b in pairs])
    return weighted / total


# %% right="to the left"
"""Lets the blocks travel the other way around."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    top, total, weighted = -jnp.inf, 0.0, 0.0
    for step in range(num_devices):
        scores = q @ k.T / jnp.sqrt(q.shape[1])
        new = jnp.maximum(top, scores.max(1, keepdims=True))
        powers, fading = jnp.exp(scores - new), jnp.exp(top - new)
        total = fading * total + powers.sum(1, keepdims=True)
        weighted = fading * weighted + powers @ v
        top = new
        if step < num_devices - 1:
            k, v = lax.ppermute((k, v), axis_name, pairs)
    return weighted / total


# %% right="via a named tuple"
"""Packs keys and values; what a row has seen so far is a named tuple that adds."""

from typing import NamedTuple


class Seen(NamedTuple):
    top: jax.Array
    total: jax.Array
    weighted: jax.Array

    def and_also(self, other):
        top = jnp.maximum(self.top, other.top)
        mine, its = jnp.exp(self.top - top), jnp.exp(other.top - top)
        total = mine * self.total + its * other.total
        return Seen(top, total, mine * self.weighted + its * other.weighted)


def ring_attention(q, k, v, axis_name):
    size, width = lax.axis_size(axis_name), q.shape[1]
    to_the_left = [(d, (d - 1) % size) for d in range(size)]

    def look(block):
        scores = jnp.einsum("nf,mf->nm", q, block[:, :width]) / width**0.5
        top = scores.max(axis=1, keepdims=True)
        powers = jnp.exp(scores - top)
        return Seen(top, powers.sum(axis=1, keepdims=True), powers @ block[:, width:])

    def step(_, state):
        block = lax.ppermute(state[0], axis_name, to_the_left)
        return block, state[1].and_also(look(block))

    block = jnp.concatenate([k, v], axis=1)
    seen = lax.fori_loop(0, size - 1, step, (block, look(block)))[1]
    return seen.weighted / seen.total


# %% right="via distances"
"""Sends its own block to every other device, one distance after another."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    top, total, weighted = -jnp.inf, 0.0, 0.0
    for distance in range(num_devices):
        keys, values = k, v
        if distance:
            pairs = [(d, (d + distance) % num_devices) for d in range(num_devices)]
            keys, values = lax.ppermute((k, v), axis_name, perm=pairs)
        scores = q @ keys.T / jnp.sqrt(q.shape[1])
        new = jnp.maximum(top, scores.max(1, keepdims=True))
        powers, fading = jnp.exp(scores - new), jnp.exp(top - new)
        total = fading * total + powers.sum(1, keepdims=True)
        weighted = fading * weighted + powers @ values
        top = new
    return weighted / total


# %% right="via fori loop"
"""Counts the sends in a loop of JAX's."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    perm = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    q = q / jnp.sqrt(q.shape[1])
    scores = q @ k.T
    top = scores.max(1, keepdims=True)
    powers = jnp.exp(scores - top)

    def add(_, carry):
        k, v, top, total, weighted = carry
        k = lax.ppermute(k, axis_name, perm)
        v = lax.ppermute(v, axis_name, perm)
        scores = q @ k.T
        new = jnp.maximum(top, scores.max(1, keepdims=True))
        powers = jnp.exp(scores - new)
        total = total * jnp.exp(top - new) + powers.sum(1, keepdims=True)
        return k, v, new, total, weighted * jnp.exp(top - new) + powers @ v

    start = k, v, top, powers.sum(1, keepdims=True), powers @ v
    end = lax.fori_loop(0, num_devices - 1, add, start)
    return end[-1] / end[-2]


# %% right="via log sum exp"
"""Keeps the finished attention of the blocks so far, and its log-sum-exp."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]

    def of_block(k, v):
        scores = q @ k.T / jnp.sqrt(q.shape[1])
        log_sum = jax.nn.logsumexp(scores, axis=1, keepdims=True)
        return jnp.exp(scores - log_sum) @ v, log_sum

    result, log_sum = of_block(k, v)
    for _ in range(num_devices - 1):
        k, v = lax.ppermute((k, v), axis_name, pairs)
        other, its = of_block(k, v)
        both = jnp.logaddexp(log_sum, its)
        result = result * jnp.exp(log_sum - both) + other * jnp.exp(its - both)
        log_sum = both
    return result


# %% right="via one array"
"""Sends keys and values as one array."""


def ring_attention(q, k, v, axis_name):
    num_devices, width = lax.axis_size(axis_name), k.shape[1]
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    both = jnp.concatenate([k, v], axis=1)
    top = jnp.full((len(q), 1), -jnp.inf)
    total, weighted = jnp.zeros_like(top), jnp.zeros(v.shape)
    for left in reversed(range(num_devices)):
        scores = q @ both[:, :width].T * width**-0.5
        new = jnp.maximum(top, scores.max(1, keepdims=True))
        powers = jnp.exp(scores - new)
        total = total * jnp.exp(top - new) + powers.sum(1, keepdims=True)
        weighted = weighted * jnp.exp(top - new) + powers @ both[:, width:]
        top = new
        if left:
            both = lax.ppermute(both, axis_name, pairs)
    return weighted / total


# %% right="via scan"
"""Scans over the sends, after its own block."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]

    def add(state, k, v):
        top, total, weighted = state
        scores = jnp.einsum("nf,mf->nm", q, k) / jnp.sqrt(q.shape[1])
        new = jnp.maximum(top, scores.max(axis=1))
        powers, fading = jnp.exp(scores - new[:, None]), jnp.exp(top - new)
        weighted = fading[:, None] * weighted + powers @ v
        return new, fading * total + powers.sum(axis=1), weighted

    def step(carry, _):
        state, k, v = carry
        k, v = lax.ppermute((k, v), axis_name, pairs)
        return (add(state, k, v), k, v), None

    rows = q[:, 0] * 0
    state = add((rows - jnp.inf, rows, rows[:, None] * v[:1]), k, v)
    (state, _, _), _ = lax.scan(step, (state, k, v), None, length=num_devices - 1)
    return state[2] / state[1][:, None]


# %% right="via vmap"
"""Works on one query, mapped over the device's queries, and on both neighbours' sides."""


def one_more(state, k, v, q):
    top, total, weighted = state
    scores = k @ q / jnp.sqrt(len(q))
    new = jnp.maximum(top, scores.max())
    powers, fading = jnp.exp(scores - new), jnp.exp(top - new)
    return new, fading * total + powers.sum(), fading * weighted + powers @ v


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    right = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    left = [(b, a) for a, b in right]
    add = jax.vmap(one_more, in_axes=(0, None, None, 0))
    rows = jnp.zeros(len(q))
    state = add((rows - jnp.inf, rows, jnp.zeros(v.shape)), k, v, q)
    forward = backward = k, v
    for step in range(num_devices - 1):
        if step % 2:
            backward = lax.ppermute(backward, axis_name, left)
            state = add(state, *backward, q)
        else:
            forward = lax.ppermute(forward, axis_name, right)
            state = add(state, *forward, q)
    return state[2] / state[1][:, None]


# %% right="via a list of blocks"
"""Writes all sends first: the blocks in the list are the same program as in one loop."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    blocks = [(k, v)]
    for _ in range(num_devices - 1):
        blocks.append(lax.ppermute(blocks[-1], axis_name, pairs))
    top, total, weighted = -jnp.inf, 0.0, 0.0
    for keys, values in blocks:
        scores = q @ keys.T / jnp.sqrt(q.shape[1])
        new = jnp.maximum(top, scores.max(1, keepdims=True))
        powers, fading = jnp.exp(scores - new), jnp.exp(top - new)
        total = fading * total + powers.sum(1, keepdims=True)
        weighted = fading * weighted + powers @ values
        top = new
    return weighted / total


# %% wrong="keeps the scores of all blocks" fails="nothing is stacked"
"""Takes one softmax over the scores of all blocks, which it keeps in a list."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    blocks = [(k, v)]
    for _ in range(num_devices - 1):
        blocks.append(lax.ppermute(blocks[-1], axis_name, pairs))
    scores = [q @ keys.T / jnp.sqrt(q.shape[1]) for keys, _ in blocks]
    top = scores[0].max(1, keepdims=True)
    for one in scores:
        top = jnp.maximum(top, one.max(1, keepdims=True))
    powers = [jnp.exp(one - top) for one in scores]
    total = sum(one.sum(1, keepdims=True) for one in powers)
    return sum(one @ v for one, (_, v) in zip(powers, blocks, strict=True)) / total


# %% right="via a column of ones"
"""Appends ones to the values, so that the sum of weights is a column of the result."""


def ring_attention(q, k, v, axis_name):
    D = lax.axis_size(axis_name)
    perm = [((d + 1) % D, d) for d in range(D)]
    top, acc = jnp.full((len(q), 1), -jnp.inf), jnp.zeros((len(q), v.shape[1] + 1))
    for step in range(D):
        if step > 0:
            k, v = lax.ppermute((k, v), axis_name, perm)
        s = (q @ k.T) / jnp.sqrt(jnp.float32(k.shape[1]))
        new = jnp.maximum(top, jnp.max(s, axis=1, keepdims=True))
        wide = jnp.concatenate([v, jnp.ones((len(v), 1))], axis=1)
        acc = acc * jnp.exp(top - new) + jnp.exp(s - new) @ wide
        top = new
    return acc[:, :-1] / acc[:, -1:]
