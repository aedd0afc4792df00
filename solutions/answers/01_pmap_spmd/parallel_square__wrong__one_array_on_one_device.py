"""Believes that JAX spreads work by itself: right on one device, idle on seven."""


def parallel_square(x):
    return jnp.asarray(x) ** 2
