"""Reads a device's rows even if another's are the same.

Told: each device reads its rows anew
Fails: each row once
"""


def read_own_rows(read, sharding, shape, devices):
    parts = []
    for device in devices:
        rows, *others = sharding.devices_indices_map(shape)[device]
        first, last, _ = rows.indices(shape[0])
        parts.append(jax.device_put(read(first, last)[:, *others], device))
    return parts
