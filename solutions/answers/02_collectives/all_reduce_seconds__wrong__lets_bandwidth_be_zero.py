"""Refuses negative bandwidths and divides by zero.

Told: none
Fails: bad numbers raise
"""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    if bandwidth < 0:
        raise ValueError(f"a bandwidth of {bandwidth}")
    return 2 * (num_devices - 1) * (latency + num_bytes / num_devices / bandwidth)
