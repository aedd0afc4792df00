"""Places the inputs and lets jit find the collective: no shard_map, and on CPU an all-
reduce.

Told: none
Fails: one reduce-scatter
"""


def sharded_matmul(a, b, num_devices):
    for size in a.shape:
        if size % num_devices:
            raise ValueError(f"{size} does not divide by {num_devices}")
    mesh = make_mesh((num_devices,), ("i",))
    a = jax.device_put(a, NamedSharding(mesh, P(None, "i")))
    b = jax.device_put(b, NamedSharding(mesh, P("i", None)))
    by_rows = NamedSharding(mesh, P("i", None))
    return jax.jit(jnp.matmul, out_shardings=by_rows)(a, b)
