"""Derives each key by fold_in from device and layer number, and stacks on the host."""


def init_ensemble(key, num_devices, sizes):
    layers = []
    for layer, (n, m) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        layer_key = jax.random.fold_in(key, layer)
        members = [
            jax.random.normal(jax.random.fold_in(layer_key, device), (n, m)) / n**0.5
            for device in range(num_devices)
        ]
        b = np.zeros((num_devices, m), np.float32)
        layers.append({"w": np.stack(members), "b": b})
    return layers
