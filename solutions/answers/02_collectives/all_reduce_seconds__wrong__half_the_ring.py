"""Counts the reduce-scatter and forgets the all-gather.

Told: this is half the ring: the sums are handed on, too
Fails: the seconds of a ring
"""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    if bandwidth <= 0:
        raise ValueError(f"a bandwidth of {bandwidth}")
    return (num_devices - 1) * (latency + num_bytes / num_devices / bandwidth)
