"""Broadcasts the key: right on one device, eight identical members on eight.

Told: the devices share a key
Fails: a key for each
"""


def init_ensemble(key, num_devices, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    layers = []
    for layer_key, n_in, n_out in zip(keys, sizes[:-1], sizes[1:], strict=True):
        w = jax.random.normal(layer_key, (n_in, n_out)) / np.sqrt(n_in)
        w = w.astype(jnp.float32)
        layers.append(
            {"w": jnp.stack([w] * num_devices), "b": jnp.zeros((num_devices, n_out))}
        )
    return layers
