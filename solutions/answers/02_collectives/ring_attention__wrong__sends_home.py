"""Sends once more than needed: the blocks come home.

Told: the last send brings each block home, where it was used first
Fails: keys and values travel
"""


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
