"""Cuts the rows and joins columns.

Told: none
Fails: split by columns
"""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] % num_devices:
        raise ValueError(f"{x.shape[1]} columns, {num_devices} devices")
    x = jnp.repeat(x, num_devices, axis=0)
    return lax.all_to_all(x, axis_name, split_axis=0, concat_axis=1, tiled=True)
