"""Computes with JAX, and returns a Python number."""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError("devices:", num_devices)
    if not bandwidth > 0:
        raise ValueError("bandwidth:", bandwidth)
    if num_devices == 1:
        return 0
    piece = jnp.float32(num_bytes) / num_devices
    return float(2 * (num_devices - 1) * (latency + piece / bandwidth))
