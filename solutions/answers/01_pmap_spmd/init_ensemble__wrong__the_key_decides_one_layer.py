"""Draws the first layer from the key, all others from keys of its own.

Told: none
Fails: the key decides
"""


def init_ensemble(key, num_devices, sizes):
    def init(key, device):
        layers = []
        for layer, (n, m) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
            layers.append(
                {"w": jax.random.normal(key, (n, m)) / n**0.5, "b": jnp.zeros(m)}
            )
            key = jax.random.fold_in(jax.random.key(layer), device)
        return layers

    keys = jax.random.split(key, num_devices)
    return jax.vmap(init)(keys, jnp.arange(num_devices))
