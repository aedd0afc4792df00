"""Makes each draw's own mean 0 and deviation 1: a single weight becomes nan.

Told: none
Fails: normal weights
"""


def init_ensemble(key, num_devices, sizes):
    def init(key):
        layers = []
        for n_in, n_out in zip(sizes[:-1], sizes[1:], strict=False):
            key, layer_key = jax.random.split(key)
            w = jax.random.normal(layer_key, (n_in, n_out))
            w = (w - w.mean()) / w.std()
            layers.append({"w": w / jnp.sqrt(n_in), "b": jnp.zeros(n_out)})
        return layers

    return jax.pmap(init)(jax.random.split(key, num_devices))
