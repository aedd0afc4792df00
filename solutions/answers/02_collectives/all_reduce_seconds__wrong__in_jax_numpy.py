"""Breaks "returns the seconds (a float); it needs no devices": a formula in jnp; from
2**31 bytes on (a 4 GB model) the int overflows, and the answer is a jax.Array.

Told: none
Fails: the seconds of a ring
"""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"num_devices = {num_devices} is out of bounds")
    if bandwidth <= 0:
        raise ValueError(f"bandwidth = {bandwidth} is out of bounds")
    chunk = jnp.asarray(num_bytes) / num_devices
    return 2 * (num_devices - 1) * (latency + chunk / bandwidth)
