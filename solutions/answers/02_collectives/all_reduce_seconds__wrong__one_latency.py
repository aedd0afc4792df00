"""Pays the latency once for the whole operation.

Told: the latency was counted once, not for each message
Fails: the seconds of a ring; one device sends nothing
"""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    if bandwidth <= 0:
        raise ValueError(f"a bandwidth of {bandwidth}")
    sends = 2 * (num_devices - 1)
    return latency + sends * num_bytes / num_devices / bandwidth
