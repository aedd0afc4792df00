"""Writes the check's devices into the code.

Told: none
Fails: any number of devices
"""


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
