"""Lets the blocks travel, but keeps them all, and the scores of all.

Told: none
Fails: never the whole sequence
"""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    keys, values = [k], [v]
    for _ in range(num_devices - 1):
        keys.append(lax.ppermute(keys[-1], axis_name, pairs))
        values.append(lax.ppermute(values[-1], axis_name, pairs))
    scores = q @ jnp.concatenate(keys).T / jnp.sqrt(q.shape[1])
    return jax.nn.softmax(scores) @ jnp.concatenate(values)
