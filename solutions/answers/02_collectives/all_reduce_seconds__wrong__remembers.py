"""Remembers by bytes and devices alone: another link gets the earlier one's seconds.

Told: none
Fails: the seconds of a ring
"""

_seconds = {}


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1 or bandwidth <= 0:
        raise ValueError(f"{num_devices} devices, bandwidth {bandwidth}")
    key = num_bytes, num_devices
    if key not in _seconds:
        message = latency + num_bytes / num_devices / bandwidth
        _seconds[key] = float(2 * (num_devices - 1) * message)
    return _seconds[key]
