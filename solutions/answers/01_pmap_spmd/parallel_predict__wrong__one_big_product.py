"""Multiplies everything on one device: right on one device, idle on seven."""


def parallel_predict(params, x):
    return jnp.asarray(x) @ params["w"] + params["b"]
