"""Uses a member's key for each of its layers: layers of one shape are equal.

Told: the layers share a key
Fails: a key for each
"""


def init_ensemble(key, num_devices, sizes):
    def init(key):
        return [
            {
                "w": jax.random.normal(key, (n, m)) / jnp.sqrt(float(n)),
                "b": jnp.zeros(m),
            }
            for n, m in zip(sizes[:-1], sizes[1:], strict=True)
        ]

    return jax.pmap(init)(jax.random.split(key, num_devices))
