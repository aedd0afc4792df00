"""Lets the queries travel along, which nobody needs.

Told: the queries were sent, too: they stay
Fails: keys and values travel
"""


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
