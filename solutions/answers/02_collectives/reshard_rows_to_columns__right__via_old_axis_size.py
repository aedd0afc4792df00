"""Counts devices by a psum of 1, a plain number, and joins the pieces itself."""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.psum(1, axis_name)
    rows, columns = x.shape
    width, rest = divmod(columns, num_devices)
    if rest:
        raise ValueError(f"cannot split {columns} columns over {num_devices} devices")
    pieces = x.reshape(rows, num_devices, width)
    pieces = lax.all_to_all(pieces, axis_name, split_axis=1, concat_axis=0)
    return pieces.reshape(num_devices * rows, width)
