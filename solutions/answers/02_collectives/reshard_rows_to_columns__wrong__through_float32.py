"""Breaks "for any dtype": moves the block as float32 and casts back; integers above
2**24 lose bits.

Told: none
Fails: split by columns
"""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] % num_devices:
        raise ValueError(f"{x.shape[1]} columns do not divide by {num_devices} devices")
    moved = lax.all_to_all(x.astype(jnp.float32), axis_name, 1, 0, tiled=True)
    return moved.astype(x.dtype)
