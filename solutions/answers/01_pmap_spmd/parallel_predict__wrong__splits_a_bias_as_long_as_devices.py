"""Takes a bias with as many entries as there are devices for one that is stacked.

Told: none
Fails: a prediction of each block
"""


def parallel_predict(params, x):
    stacked = len(x) > 1 and len(params["b"]) == len(x)
    axes = {"w": None, "b": 0 if stacked else None}
    return jax.pmap(predict, in_axes=(axes, 0))(params, x)
