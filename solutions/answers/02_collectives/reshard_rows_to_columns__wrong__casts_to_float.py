"""Computes with 32-bit floats whatever comes in.

Told: none
Fails: split by columns
"""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] % num_devices:
        raise ValueError(f"{x.shape[1]} columns, {num_devices} devices")
    return lax.all_to_all(jnp.float32(x), axis_name, 1, 0, tiled=True)
