"""Reshapes its own rows and sends nothing: the right shape, the wrong data.

Told: these are the device's own rows in another shape
Fails: split by columns; one all_to_all
"""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] % num_devices:
        raise ValueError(f"{x.shape[1]} columns, {num_devices} devices")
    return x.reshape(len(x) * num_devices, -1)
