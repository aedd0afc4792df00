"""Lets the mapped function close over the parameters."""


def parallel_predict(params, x):
    return jax.pmap(lambda block: predict(params, block))(x)
