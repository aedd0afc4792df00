"""Counts devices from the end: with fewer rows than devices, others work.

Told: none
Fails: row d on device d
"""


def parallel_square(x):
    devices = jax.devices()[-len(x) :]
    return jax.pmap(lambda row: row**2, devices=devices)(x)
