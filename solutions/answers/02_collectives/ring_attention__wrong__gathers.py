"""Gathers all keys and values, and computes as one device would.

Told: all blocks were gathered on every device
Fails: never the whole sequence; keys and values travel
"""


def ring_attention(q, k, v, axis_name):
    keys = lax.all_gather(k, axis_name, tiled=True)
    values = lax.all_gather(v, axis_name, tiled=True)
    return jax.nn.softmax(q @ keys.T / jnp.sqrt(q.shape[1])) @ values
