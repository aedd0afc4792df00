"""Multiplies by w and adds nothing.

Told: the bias was not added
Fails: a prediction of each block
"""


def parallel_predict(params, x):
    return jax.pmap(lambda p, x: x @ p["w"], in_axes=(None, 0))(params, x)
