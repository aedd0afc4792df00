"""Sends keys to the right and values to the left: they meet others'.

Told: none
Fails: attention over all positions; large scores are fine
"""


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
