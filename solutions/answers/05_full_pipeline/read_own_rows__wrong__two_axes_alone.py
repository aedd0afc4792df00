"""Takes every array for a matrix.

Told: none
Fails: each device its part
"""


def read_own_rows(read, sharding, shape, devices):
    blocks, parts = {}, []
    for device in devices:
        rows, columns = sharding.devices_indices_map(shape)[device][:2]
        first, last, _ = rows.indices(shape[0])
        if first not in blocks:
            blocks[first] = read(first, last)
        parts.append(jax.device_put(blocks[first][:, columns], device))
    return parts
