"""Reads rows once for each range of columns.

Told: each device reads its rows anew
Fails: each row once
"""


def read_own_rows(read, sharding, shape, devices):
    blocks, parts = {}, []
    for device in devices:
        rows, *others = sharding.devices_indices_map(shape)[device]
        first, last, _ = rows.indices(shape[0])
        key = first, str(others)
        if key not in blocks:
            blocks[key] = read(first, last)[:, *others]
        parts.append(jax.device_put(blocks[key], device))
    return parts
