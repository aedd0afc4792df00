"""Tests the lowest bits: divides by powers of two alone.

Told: none
Fails: any number of devices
"""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] & (num_devices - 1):
        raise ValueError(f"{x.shape[1]} columns, {num_devices} devices")
    return lax.all_to_all(x, axis_name, 1, 0, tiled=True)
