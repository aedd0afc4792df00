"""Numbers the devices from the last to the first.

Told: none
Fails: row d on device d
"""


def parallel_square(x):
    devices = jax.devices()[: len(x)][::-1]
    return jax.pmap(lambda row: row**2, devices=devices)(x)
