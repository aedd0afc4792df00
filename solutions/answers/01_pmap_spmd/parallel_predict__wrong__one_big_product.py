"""Multiplies everything on one device: right on one device, idle on seven.

Told: jax.pmap runs on a device per row; here is one
Fails: row d on device d
"""


def parallel_predict(params, x):
    return jnp.asarray(x) @ params["w"] + params["b"]
