"""Sends queries and half-done results around in place of keys and values.

Told: none
Fails: keys and values travel
"""


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
