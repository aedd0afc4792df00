"""Closes over the parameters of its first call.

Told: none
Fails: a prediction of each block; nothing is remembered
"""

MAPPED = {}


def parallel_predict(params, x):
    key = x.shape, params["w"].shape
    if isinstance(x, jax.core.Tracer):
        return jax.pmap(lambda block: predict(params, block))(x)
    MAPPED.setdefault(key, jax.pmap(lambda block: predict(params, block)))
    return MAPPED[key](x)
