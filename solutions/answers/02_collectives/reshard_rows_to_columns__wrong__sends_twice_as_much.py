"""Sends the block and a copy of it in one exchange.

Told: none
Fails: one all_to_all
"""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] % num_devices:
        raise ValueError(f"{x.shape[1]} columns, {num_devices} devices")
    both = lax.all_to_all(jnp.stack([x, x]), axis_name, 2, 1, tiled=True)
    return both[0]
