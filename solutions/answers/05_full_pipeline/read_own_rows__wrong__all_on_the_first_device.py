"""Makes arrays without saying on which device.

Told: none
Fails: each device its part
"""


def read_own_rows(read, sharding, shape, devices):
    blocks, parts = {}, []
    for device in devices:
        rows, *others = sharding.devices_indices_map(shape)[device]
        first, last, _ = rows.indices(shape[0])
        if first not in blocks:
            blocks[first] = read(first, last)
        parts.append(jnp.asarray(blocks[first][:, *others]))
    return parts
