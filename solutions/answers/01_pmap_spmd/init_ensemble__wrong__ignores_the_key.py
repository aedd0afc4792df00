"""Draws from NumPy's global state: the same key gives other parameters each time.

Told: none
Fails: the key decides
"""


def init_ensemble(key, num_devices, sizes):
    return [
        {
            "w": np.float32(np.random.normal(size=(num_devices, n, m)) / np.sqrt(n)),
            "b": np.zeros((num_devices, m), np.float32),
        }
        for n, m in zip(sizes[:-1], sizes[1:], strict=True)
    ]
