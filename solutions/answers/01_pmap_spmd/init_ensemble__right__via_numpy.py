"""Seeds generators of NumPy's, one for each layer of each device, by the key."""


def init_ensemble(key, num_devices, sizes):
    seed = np.random.SeedSequence(np.asarray(jax.random.key_data(key)).tolist())
    layers = []
    for n_in, n_out in zip(sizes[:-1], sizes[1:], strict=True):
        w = [
            np.random.default_rng(one).normal(0, n_in**-0.5, (n_in, n_out))
            for one in seed.spawn(num_devices)
        ]
        b = np.zeros((num_devices, n_out), "float32")
        layers.append({"w": np.array(w, "float32"), "b": b})
    return layers
