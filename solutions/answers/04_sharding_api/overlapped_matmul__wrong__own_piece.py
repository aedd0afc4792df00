"""Multiplies by its own piece alone.

Told: each device multiplied its own piece alone
Fails: the product
"""


def overlapped_matmul(x, w, axis_name):
    start = jax.lax.axis_index(axis_name) * len(w)
    return jax.lax.dynamic_slice_in_dim(x, start, len(w), axis=1) @ w
