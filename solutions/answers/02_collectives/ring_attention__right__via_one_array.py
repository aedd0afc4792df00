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
