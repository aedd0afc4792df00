"""Draws with NumPy from a seed of the key's last 16 bits; keys 3 and 65539 give the
same parameters ("another key others"), and no layer has a JAX key of its own.

Told: none
Fails: the key decides
"""


def init_ensemble(key, num_devices, sizes):
    seed = int(jax.random.key_data(key)[-1]) % 2**16
    rng = np.random.default_rng(seed)
    layers = []
    for n_in, n_out in zip(sizes[:-1], sizes[1:], strict=True):
        w = rng.normal(size=(num_devices, n_in, n_out)) / np.sqrt(n_in)
        layers.append(
            {"w": np.float32(w), "b": np.zeros((num_devices, n_out), np.float32)}
        )
    return layers
