"""Breaks "returns its sum over all devices": picks and places chunks by multiplying
with a one-hot; an inf or nan in one row (inf * 0 = nan) spoils all other chunks.

Told: none
Fails: the sum of all devices
"""


def ring_all_reduce(x, axis_name):
    num = lax.axis_size(axis_name)
    if x.shape[0] % num:
        raise ValueError(f"{x.shape[0]} rows do not divide by {num} devices")
    d = lax.axis_index(axis_name)
    right = [(i, (i + 1) % num) for i in range(num)]
    chunks = x.reshape(num, -1)
    for step in range(2 * (num - 1)):
        pick = jax.nn.one_hot((d - step) % num, num, dtype=x.dtype)
        place = jax.nn.one_hot((d - step - 1) % num, num, dtype=x.dtype)
        arrived = lax.ppermute(
            (pick[:, None] * chunks).sum(0, dtype=x.dtype), axis_name, right
        )
        if step >= num - 1:
            chunks = chunks * (1 - place)[:, None]
        chunks = chunks + place[:, None] * arrived
    return chunks.reshape(x.shape)
