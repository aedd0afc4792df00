"""Chooses and places chunks by masks, in helpers of its own."""


def take(chunks, which):
    return lax.dynamic_index_in_dim(chunks, which, keepdims=False)


def place(chunks, which, new):
    here = jnp.arange(len(chunks)) == which
    return jnp.where(here.reshape(-1, *[1] * (chunks.ndim - 1)), new, chunks)


def ring_all_reduce(x, axis_name):
    size, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    if len(x) % size:
        raise ValueError("rows and devices:", len(x), size)
    right = [(d, d + 1) for d in range(size - 1)] + [(size - 1, 0)]
    chunks = jnp.array(jnp.split(x, size))
    for add in (True, False):
        for step in range(size - 1):
            at = me - step + (not add)
            came = lax.ppermute(take(chunks, at % size), axis_name, right)
            new = came + chunks if add else came[None]
            chunks = place(chunks, (at - 1) % size, new)
    return jnp.concatenate(chunks)
