"""Maps by vmap; who computes does not matter here."""


def init_ensemble(key, num_devices, sizes):
    pairs = list(zip(sizes[:-1], sizes[1:], strict=True))

    def init(key):
        keys = jax.random.split(key, len(pairs))
        return [
            {"w": n**-0.5 * jax.random.normal(k, (n, m)), "b": jnp.zeros((m,))}
            for k, (n, m) in zip(keys, pairs, strict=True)
        ]

    return jax.vmap(init)(jax.random.split(key, num_devices))
