"""Draws standard normals: activations grow with the width.

Told: they are not scaled by 1 / sqrt(n_in)
Fails: normal weights
"""


def init_ensemble(key, num_devices, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, layer_key = jax.random.split(key)
            layers.append(
                {"w": jax.random.normal(layer_key, (n, m)), "b": jnp.zeros(m)}
            )
        return layers

    return jax.pmap(init)(jax.random.split(key, num_devices))
