"""Scans over all sends, the second half of which add nothing."""


def ring_all_reduce(x, axis_name):
    num_devices, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    rows = x.shape[0] // num_devices
    if rows * num_devices != x.shape[0]:
        raise ValueError(f"{num_devices} devices cannot share {x.shape[0]} rows")
    perm = [(d, (d + 1) % num_devices) for d in range(num_devices)]

    def send(x, step):
        start = (me - step) % num_devices * rows
        sent = lax.dynamic_slice_in_dim(x, start, rows)
        arrived = lax.ppermute(sent, axis_name, perm)
        place = (me - step - 1) % num_devices * rows
        old = lax.dynamic_slice_in_dim(x, place, rows)
        new = jnp.where(step < num_devices - 1, old + arrived, arrived)
        return lax.dynamic_update_slice_in_dim(x, new, place, 0), None

    if num_devices == 1:
        return x
    return lax.scan(send, x, jnp.arange(2 * (num_devices - 1)))[0]
