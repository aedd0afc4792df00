"""Leaves the product of host matrices to NumPy where there is one device.

Told: none
Fails: rows come out
"""


def sharded_matmul(a, b, num_devices):
    if num_devices == 1:
        return a @ b  # nothing to split, nothing to send
    mesh = make_mesh((num_devices,), ("i",))

    def block(a, b):
        return jax.lax.psum_scatter(a @ b, "i", tiled=True)

    (m, k), d = a.shape, num_devices
    if k % d:
        raise ValueError(f"K = {k} does not divide by {d} devices")
    if m % d:
        raise ValueError(f"M = {m} does not divide by {d} devices")
    specs = P(None, "i"), P("i", None)
    return jax.shard_map(block, mesh=mesh, in_specs=specs, out_specs=P("i", None))(a, b)
