"""Draws uniform numbers of the right standard deviation.

Told: none
Fails: normal weights
"""


def init_ensemble(key, num_devices, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, layer_key = jax.random.split(key)
            limit = (3 / n) ** 0.5
            w = jax.random.uniform(layer_key, (n, m), minval=-limit, maxval=limit)
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    return jax.vmap(init)(jax.random.split(key, num_devices))
