"""Keeps the scores of all blocks, and adds the values afterwards.

Told: none
Fails: never the whole sequence
"""


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
