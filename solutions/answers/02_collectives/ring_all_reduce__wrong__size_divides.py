"""Breaks "where n is not divisible by D: ValueError": asks whether x.size divides, so
(12, 2) over 8 devices does not raise, and chunks are no whole rows.

Told: none
Fails: rows that do not divide
"""


def ring_all_reduce(x, axis_name):
    num = lax.axis_size(axis_name)
    if x.size % num:
        raise ValueError(f"{len(x)} rows do not divide by {num} devices")
    d = lax.axis_index(axis_name)
    right = [(i, (i + 1) % num) for i in range(num)]
    chunks = x.reshape(num, x.size // num)
    for step in range(2 * (num - 1)):
        arrived = lax.ppermute(chunks[(d - step) % num], axis_name, right)
        place = chunks.at[(d - step - 1) % num]
        chunks = place.add(arrived) if step < num - 1 else place.set(arrived)
    return chunks.reshape(x.shape)
