"""Gathers all pieces, then multiplies once.

Told: all pieces were gathered before the product
Fails: never the whole; pieces travel
"""


def overlapped_matmul(x, w, axis_name):
    return x @ jax.lax.all_gather(w, axis_name, tiled=True)
