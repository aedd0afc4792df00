"""Takes each block's softmax alone, and their mean.

Told: each block got a softmax of its own, and these were averaged
Fails: attention over all positions; large scores are fine
"""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    result = 0
    for step in range(num_devices):
        result = result + jax.nn.softmax(q @ k.T / jnp.sqrt(q.shape[1])) @ v
        if step < num_devices - 1:
            k, v = lax.ppermute((k, v), axis_name, pairs)
    return result / num_devices
