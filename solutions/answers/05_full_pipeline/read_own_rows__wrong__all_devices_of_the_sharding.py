"""Goes by the devices of the sharding, not by those that it is given.

Told: none
Fails: each device its part; own rows alone
"""


def read_own_rows(read, sharding, shape, devices):
    blocks, parts = {}, []
    for device, index in sharding.addressable_devices_indices_map(shape).items():
        first, last, _ = index[0].indices(shape[0])
        if first not in blocks:
            blocks[first] = read(first, last)
        parts.append(jax.device_put(blocks[first][:, *index[1:]], device))
    return parts
