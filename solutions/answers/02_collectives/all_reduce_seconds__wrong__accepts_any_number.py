"""Divides by whatever it gets.

Told: none
Fails: bad numbers raise
"""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    return 2 * (num_devices - 1) * (latency + num_bytes / num_devices / bandwidth)
