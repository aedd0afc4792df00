"""Leaves the error to JAX, whose text names both numbers; one device sends nothing."""


def reshard_rows_to_columns(x, axis_name):
    if lax.axis_size(axis_name) == 1:
        return x
    return lax.all_to_all(x, axis_name, 1, 0, tiled=True)
