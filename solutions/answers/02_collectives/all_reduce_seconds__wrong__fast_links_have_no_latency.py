"""Forgets the latency of fast links.

Told: none
Fails: the seconds of a ring
"""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    if bandwidth <= 0:
        raise ValueError(f"a bandwidth of {bandwidth}")
    if bandwidth > 1e9:
        latency = 0.0
    return 2 * (num_devices - 1) * (latency + num_bytes / num_devices / bandwidth)
