"""Writes the number of layers into the code.

Told: none
Fails: a list of layers
"""


def init_ensemble(key, num_devices, sizes):
    def init(key):
        first, second = jax.random.split(key)
        n, m, k = sizes
        return [
            {"w": jax.random.normal(first, (n, m)) / n**0.5, "b": jnp.zeros(m)},
            {"w": jax.random.normal(second, (m, k)) / m**0.5, "b": jnp.zeros(k)},
        ]

    return jax.vmap(init)(jax.random.split(key, num_devices))
