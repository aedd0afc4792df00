"""Breaks "the same bits": collects the finished chunks in zeros, the own one by `set`,
those that arrive by `add`. Of a sum of -0.0 the others make 0.0.

Told: none
Fails: the same bits everywhere
"""


def ring_all_reduce(x, axis_name):
    size, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    if len(x) % size:
        raise ValueError(f"{len(x)} rows cannot be cut into {size} chunks")
    ring = [(d, (d + 1) % size) for d in range(size)]
    chunks = x.reshape(size, len(x) // size, *x.shape[1:])
    piece = chunks[me]
    for step in range(size - 1):
        piece = lax.ppermute(piece, axis_name, ring) + chunks[(me - step - 1) % size]
    result = jnp.zeros_like(chunks).at[(me + 1) % size].set(piece)
    for step in range(size - 1):
        piece = lax.ppermute(piece, axis_name, ring)
        result = result.at[(me - step) % size].add(piece)
    return result.reshape(x.shape)
