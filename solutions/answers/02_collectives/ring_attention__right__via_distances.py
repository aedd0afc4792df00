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
