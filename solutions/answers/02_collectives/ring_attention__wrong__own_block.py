"""Looks at the device's own positions.

Told: each device looked at its own keys alone
Fails: attention over all positions; large scores are fine
"""


def ring_attention(q, k, v, axis_name):
    return jax.nn.softmax(q @ k.T / jnp.sqrt(q.shape[1]), axis=-1) @ v
