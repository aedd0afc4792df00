"""Makes a copy of the parameters per device by hand instead of broadcasting.

Told: none
Fails: a prediction of each block; no stacked parameters
"""


def parallel_predict(params, x):
    stacked = jax.tree.map(lambda p: jnp.stack([p] * len(x)), params)
    return jax.pmap(predict)(stacked, x)
