"""Raises with the numbers of the visible check.

Told: none
Fails: bad numbers raise
"""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError("0 devices")
    if bandwidth <= 0:
        raise ValueError("-5 or 0 is no bandwidth")
    return 2 * (num_devices - 1) * (latency + num_bytes / num_devices / bandwidth)
