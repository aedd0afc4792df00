"""Adds up the reduce-scatter and the all-gather, message by message."""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    if bandwidth <= 0:
        raise ValueError(f"a bandwidth of {bandwidth}")
    message = latency + num_bytes / num_devices / bandwidth
    scatter = sum(message for _ in range(num_devices - 1))
    gather = sum(message for _ in range(num_devices - 1))
    return float(scatter + gather)
