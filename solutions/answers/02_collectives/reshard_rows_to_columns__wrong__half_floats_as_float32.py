"""Sends half floats as float32, twice their bytes; all other dtypes as they are.

Told: none
Fails: one all_to_all
"""


def reshard_rows_to_columns(x, axis_name):
    size = lax.axis_size(axis_name)
    if x.shape[1] % size:
        raise ValueError(f"{x.shape[1]} columns cannot be split over {size} devices")
    is_half = x.dtype in (jnp.bfloat16, jnp.float16)
    sent = x.astype(jnp.float32) if is_half else x
    got = lax.all_to_all(sent, axis_name, 1, 0, tiled=True)
    return got.astype(x.dtype)
