"""Numbers the keys by device + layer: a layer equals the neighbour's next one.

Told: none
Fails: a key for each
"""


def init_ensemble(key, num_devices, sizes):
    layers = []
    for layer, (n, m) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        w = [
            jax.random.normal(jax.random.fold_in(key, device + layer), (n, m)) / n**0.5
            for device in range(num_devices)
        ]
        layers.append({"w": jnp.stack(w), "b": jnp.zeros((num_devices, m))})
    return layers
