"""Fixes the parameters by partial, so that one argument is left."""

import functools


def parallel_predict(params, x):
    expect = functools.partial(predict, {k: jnp.asarray(v) for k, v in params.items()})
    return jax.pmap(expect, axis_name="batch")(x)
