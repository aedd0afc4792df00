"""Lets a cache of this call remember what was read."""

import functools


def read_own_rows(read, sharding, shape, devices):
    once = functools.cache(read)
    found = []
    for device in devices:
        index = sharding.devices_indices_map(shape)[device]
        first = index[0].start or 0
        last = shape[0] if index[0].stop is None else index[0].stop
        found.append(
            jax.device_put(once(first, last)[(slice(None), *index[1:])], device)
        )
    return found
