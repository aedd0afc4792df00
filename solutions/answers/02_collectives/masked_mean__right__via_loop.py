"""Goes through the entries one by one."""


def masked_mean(x, mask, axis_name):
    def add(sums, entry):
        value, counts = entry
        total, count = sums
        return (jnp.where(counts, total + value, total), count + counts), None

    start = jnp.float32(0), jnp.int32(0)
    sums, _ = lax.scan(add, start, (x.ravel(), mask.ravel()))
    total, count = lax.psum(sums, axis_name)
    return total / jnp.maximum(count, 1)
