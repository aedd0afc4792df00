"""Calls helpers of its own, which have the names of functions of the course."""


def check(mask, x):
    return jax.lax.select(mask, x, jnp.zeros_like(x))


def expect(total, count):
    return total / count


def observe(x, axis_name):
    return jax.lax.psum(jnp.sum(x, dtype=jnp.float32), axis_name=axis_name)


def masked_mean(x, mask, axis_name):
    total = observe(check(mask, x), axis_name)
    count = observe(mask, axis_name)
    return jax.lax.cond(count > 0, expect, lambda *_: jnp.zeros(()), total, count)
