"""Reads row by row, each at most once."""


def read_own_rows(read, sharding, shape, devices):
    places, known, parts = sharding.devices_indices_map(shape), {}, []
    for device in devices:
        rows, *others = places[device]
        for row in range(shape[0])[rows]:
            if row not in known:
                known[row] = read(row, row + 1)
        whole = np.concatenate([known[row] for row in range(shape[0])[rows]])
        parts.append(jax.device_put(whole[(slice(None), *others)], device))
    return parts
