"""Splits a key of its own, whatever key it was given.

Told: none
Fails: the key decides
"""


def init_ensemble(key, num_devices, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, layer_key = jax.random.split(key)
            w = jax.random.normal(layer_key, (n, m)) / np.float32(np.sqrt(n))
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    return jax.pmap(init)(jax.random.split(jax.random.key(0), num_devices))
