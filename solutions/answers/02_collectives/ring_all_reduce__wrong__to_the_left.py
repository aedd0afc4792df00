"""Sends the chunks that go to the right to the left.

Told: the chunks were sent to the left, not to the right
Fails: the sum of all devices; the same bits everywhere
"""


def ring_all_reduce(x, axis_name):
    num_devices, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide by {num_devices} devices")
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    chunks = x.reshape(num_devices, -1, *x.shape[1:])
    for step in range(2 * (num_devices - 1)):
        sent = chunks[(me - step) % num_devices]
        arrived = lax.ppermute(sent, axis_name, to_left)
        place = (me - step - 1) % num_devices
        if step < num_devices - 1:
            arrived = arrived + chunks[place]
        chunks = chunks.at[place].set(arrived)
    return chunks.reshape(x.shape)
