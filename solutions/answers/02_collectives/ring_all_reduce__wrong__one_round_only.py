"""Sums the chunks and never hands the finished ones on.

Told: the finished sums were not handed on
Fails: the sum of all devices; sends of one chunk; the same bits everywhere
"""


def ring_all_reduce(x, axis_name):
    num_devices, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows, {num_devices} devices")
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    chunks = x.reshape(num_devices, -1, *x.shape[1:])
    for step in range(num_devices - 1):
        arrived = lax.ppermute(chunks[(me - step) % num_devices], axis_name, pairs)
        chunks = chunks.at[(me - step - 1) % num_devices].add(arrived)
    return chunks.reshape(x.shape)
