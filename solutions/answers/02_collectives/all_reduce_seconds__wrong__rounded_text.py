"""Breaks "its text holds the bad number in full": `:g` writes six digits of it.

Told: none
Fails: bad numbers raise
"""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"at least one device is needed, not {num_devices}")
    if bandwidth <= 0:
        raise ValueError(f"a bandwidth of {bandwidth:g} bytes per second moves nothing")
    messages = 2 * (num_devices - 1)
    return messages * (latency + num_bytes / num_devices / bandwidth)
