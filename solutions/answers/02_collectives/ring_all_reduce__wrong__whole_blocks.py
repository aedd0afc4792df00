"""Passes whole blocks around: D / 2 times the bytes, and an order of sums of its own on each device.

Told: they differ by rounding: each device added in an order of its own
Fails: sends of one chunk; the same bits everywhere
"""


def ring_all_reduce(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows, {num_devices} devices")
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    total = x
    for _ in range(num_devices - 1):
        x = lax.ppermute(x, axis_name, pairs)
        total = total + x
    return total
