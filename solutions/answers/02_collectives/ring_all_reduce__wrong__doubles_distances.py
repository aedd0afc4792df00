"""Exchanges whole blocks with devices 1, 2, 4 further: right for powers of two.

Told: none
Fails: sends of one chunk
"""


def ring_all_reduce(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows, {num_devices} devices")
    distance = 1
    while distance < num_devices:
        pairs = [(d, d ^ distance) for d in range(num_devices)]
        x = x + lax.ppermute(x, axis_name, pairs)
        distance *= 2
    return x
