"""Leaves the sum over devices to JAX, which asks where it shall lie.

Told: none
Fails: the layers' result
"""


def explicit_mlp(params, x):
    return mlp(params, reshard(x, P("data", None)))
