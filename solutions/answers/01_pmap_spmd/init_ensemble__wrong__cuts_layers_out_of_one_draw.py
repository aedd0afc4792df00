"""Draws one large matrix per device, and cuts each layer out of its corner.

Told: the layers share a key
Fails: a key for each
"""


def init_ensemble(key, num_devices, sizes):
    largest = max(sizes)

    def init(key):
        draw = jax.random.normal(key, (largest, largest))
        return [
            {"w": draw[:n, :m] / np.float32(np.sqrt(n)), "b": jnp.zeros(m)}
            for n, m in zip(sizes[:-1], sizes[1:], strict=True)
        ]

    return jax.vmap(init)(jax.random.split(key, num_devices))
