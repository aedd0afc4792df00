"""Sums twelve uniform numbers: mean and deviation are right, the tails are missing.

Told: none
Fails: normal weights
"""


def init_ensemble(key, num_devices, sizes):
    def init(key):
        keys = jax.random.split(key, len(sizes))
        layers = []
        for k, n_in, n_out in zip(keys, sizes, sizes[1:], strict=False):
            total = jax.random.uniform(k, (12, n_in, n_out)).sum(0) - 6
            layers.append({"w": total / n_in**0.5, "b": jnp.zeros((n_out,))})
        return layers

    return jax.vmap(init)(jax.random.split(key, num_devices))
