"""Breaks "for a bandwidth of 0 or less: ValueError": with one device it returns 0
before it looks at the bandwidth.

Told: none
Fails: bad numbers raise
"""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices == 1:
        return 0.0
    if num_devices < 1:
        raise ValueError(f"num_devices is {num_devices}, below 1")
    if bandwidth <= 0:
        raise ValueError(f"bandwidth is {bandwidth}, not above 0")
    return 2 * (num_devices - 1) * (latency + num_bytes / num_devices / bandwidth)
