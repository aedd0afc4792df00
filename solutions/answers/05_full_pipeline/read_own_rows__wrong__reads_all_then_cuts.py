"""Reads the whole array, then cuts it.

Told: all rows of the array are read
Fails: own rows alone
"""


def read_own_rows(read, sharding, shape, devices):
    whole, places = read(0, shape[0]), sharding.devices_indices_map(shape)
    return [jax.device_put(whole[places[device]], device) for device in devices]
