"""Gathers small blocks, and exchanges large ones.

Told: none
Fails: one all_to_all
"""

from jax import lax


def reshard_rows_to_columns(x, axis_name):
    c, d = x.shape[1], lax.axis_size(axis_name)
    if c % d:
        raise ValueError(f"{c} columns cannot be split over {d} devices")
    if x.size <= 32:  # small enough: gather everything
        whole = lax.all_gather(x, axis_name, tiled=True)
        width = c // d
        return lax.dynamic_slice_in_dim(
            whole, lax.axis_index(axis_name) * width, width, 1
        )
    return lax.all_to_all(x, axis_name, 1, 0, tiled=True)
