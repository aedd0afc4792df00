"""A ring for floats, psum for all other dtypes.

Told: none
Fails: sends of one chunk
"""

from jax import lax


def ring_all_reduce(x, axis_name):
    D = lax.axis_size(axis_name)
    if x.shape[0] % D:
        raise ValueError(f"{x.shape[0]} rows do not divide by {D} devices")
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return lax.psum(x, axis_name)
    pairs = [(d, (d + 1) % D) for d in range(D)]
    chunks = x.reshape(D, x.shape[0] // D, *x.shape[1:])
    d = lax.axis_index(axis_name)
    for step in range(2 * (D - 1)):
        arrived = lax.ppermute(chunks[(d - step) % D], axis_name, pairs)
        place = (d - step - 1) % D
        at = chunks.at[place]
        chunks = at.add(arrived) if step < D - 1 else at.set(arrived)
    return chunks.reshape(x.shape)
