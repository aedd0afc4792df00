"""Adds rows of zeros where there are fewer rows than devices, and raises nothing.

Told: none
Fails: size and devices are named
"""


def sharded_matmul(a, b, num_devices):
    mesh = make_mesh((num_devices,), ("i",))
    m, k = a.shape
    for size in (k, m if m > num_devices else 0):  # few rows are padded
        if size % num_devices:
            raise ValueError(f"{size} does not divide by {num_devices} devices")
    missing = max(0, num_devices - m)
    rows = jnp.pad(a, ((0, missing), (0, 0))) if missing else a

    def own(a, b):
        return jax.lax.psum_scatter(a @ b, "i", tiled=True)

    specs = P(None, "i"), P("i", None)
    made = jax.jit(
        jax.shard_map(own, mesh=mesh, in_specs=specs, out_specs=P("i", None))
    )
    return made(rows, b)[:m] if missing else made(rows, b)
