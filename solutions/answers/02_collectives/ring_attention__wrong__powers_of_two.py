"""Reaches all devices by distances that exist for powers of two alone.

Told: none
Fails: large scores are fine; any number of devices
"""


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
