"""Divides by the square root of n_out: variance grows where a layer narrows.

Told: n_out was taken for n_in
Fails: normal weights
"""


def init_ensemble(key, num_devices, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, layer_key = jax.random.split(key)
            w = jax.random.normal(layer_key, (n, m)) / jnp.sqrt(float(m))
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    return jax.pmap(init)(jax.random.split(key, num_devices))
