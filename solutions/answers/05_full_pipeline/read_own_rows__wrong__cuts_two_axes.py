"""Cuts rows and columns alone: a third axis stays whole.

Told: none
Fails: each device its part
"""


def read_own_rows(read, sharding, shape, devices):
    where, known, parts = sharding.devices_indices_map(shape), {}, []
    for device in devices:
        own, *columns = where[device][:2]
        first, last, _ = own.indices(shape[0])
        if first not in known:
            known[first] = read(first, last)
        parts.append(jax.device_put(known[first][:, *columns], device))
    return parts
