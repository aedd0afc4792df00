"""Makes every part float32.

Told: none
Fails: each device its part
"""


def read_own_rows(read, sharding, shape, devices):
    blocks, parts = {}, []
    for device in devices:
        rows, *others = sharding.devices_indices_map(shape)[device]
        first, last, _ = rows.indices(shape[0])
        if first not in blocks:
            blocks[first] = np.float32(read(first, last))
        parts.append(jax.device_put(blocks[first][:, *others], device))
    return parts
