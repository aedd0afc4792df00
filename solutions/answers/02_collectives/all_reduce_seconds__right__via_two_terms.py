"""Adds the time of the messages to the time of the bytes."""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    if bandwidth <= 0:
        raise ValueError(f"a bandwidth of {bandwidth}")
    moved = 2 * num_bytes * (num_devices - 1) / num_devices
    return 2 * (num_devices - 1) * latency + moved / bandwidth
