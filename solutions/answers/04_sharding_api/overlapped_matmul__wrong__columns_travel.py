"""Columns of `x` go to their pieces, sums come back.

Told: none
Fails: never the whole; pieces travel
"""


def overlapped_matmul(x, w, axis_name):
    count = jax.lax.axis_size(axis_name)
    parts = x.reshape(len(x), count, len(w))
    columns = jax.lax.all_to_all(parts, axis_name, 1, 0)
    return jax.lax.psum_scatter(columns @ w, axis_name)
