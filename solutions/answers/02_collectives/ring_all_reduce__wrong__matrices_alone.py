"""Keeps the columns alone of an array's other axes.

Told: none
Fails: the sum of all devices
"""


def ring_all_reduce(x, axis_name):
    num_devices, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows, {num_devices} devices")
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    chunks = x.reshape(num_devices, -1, x.shape[-1])
    for step in range(2 * (num_devices - 1)):
        arrived = lax.ppermute(chunks[(me - step) % num_devices], axis_name, pairs)
        place = (me - step - 1) % num_devices
        if step < num_devices - 1:
            arrived = arrived + chunks[place]
        chunks = chunks.at[place].set(arrived)
    return chunks.reshape(len(x), -1)
