"""Believes that JAX spreads work by itself: right on one device, idle on seven.

Told: jax.pmap runs on a device per row; here is one
Fails: row d on device d
"""


def parallel_square(x):
    return jnp.asarray(x) ** 2
