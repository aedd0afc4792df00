"""Every device multiplies all of K, and the copies are summed.

Told: every device had all of K, and the copies were summed
Fails: the product; each device has its part of k
"""


def sharded_matmul(a, b, num_devices):
    for size in a.shape:
        if size % num_devices:
            raise ValueError(f"{size} does not divide by {num_devices}")

    def multiply(a, b):
        return jax.lax.psum_scatter(a @ b, "i", tiled=True)

    mesh = make_mesh((num_devices,), ("i",))
    mapped = jax.shard_map(
        multiply, mesh=mesh, in_specs=P(), out_specs=P("i", None), check_vma=False
    )
    return jax.jit(mapped)(a, b)
