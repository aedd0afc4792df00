"""Splits the key into a table, one key for each layer of each device."""

import math


def init_ensemble(key, num_devices, sizes):
    pairs = [*zip(sizes, sizes[1:])]  # noqa: B905
    table = jax.random.split(key, (num_devices, len(pairs)))

    def check(keys, shape):
        draw = jax.vmap(lambda key: jax.random.normal(key, shape, jnp.float32))
        return draw(keys) * (1.0 / math.sqrt(shape[0]))

    return [
        {"w": check(table[:, layer], pair), "b": jnp.zeros((num_devices, pair[1]))}
        for layer, pair in enumerate(pairs)
    ]
