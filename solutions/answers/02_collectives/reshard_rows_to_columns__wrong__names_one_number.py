"""Names the columns and not the devices.

Told: none
Fails: columns that do not divide
"""


def reshard_rows_to_columns(x, axis_name):
    if x.shape[1] % lax.axis_size(axis_name):
        raise ValueError(f"{x.shape[1]} columns do not divide")
    return lax.all_to_all(x, axis_name, 1, 0, tiled=True)
