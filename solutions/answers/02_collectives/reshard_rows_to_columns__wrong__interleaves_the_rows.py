"""Exchanges the right pieces and joins them in another order.

Told: the rows arrived in another order
Fails: split by columns
"""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] % num_devices:
        raise ValueError(f"{x.shape[1]} columns, {num_devices} devices")
    pieces = x.reshape(len(x), num_devices, -1)
    pieces = lax.all_to_all(pieces, axis_name, split_axis=1, concat_axis=1)
    return pieces.reshape(len(x) * num_devices, -1)
