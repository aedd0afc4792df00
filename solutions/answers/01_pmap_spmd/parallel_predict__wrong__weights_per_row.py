"""Copies the weights for each row of a block.

With fewer rows than devices these are fewer than one copy per device.

Told: none
Fails: no stacked parameters
"""


def _predict_rows(params, x):  # x: (B, F)
    w = jnp.broadcast_to(params["w"], (x.shape[0], *params["w"].shape))
    return jnp.einsum("bf,bfc->bc", x, w) + params["b"]


def parallel_predict(params, x):
    return jax.pmap(_predict_rows, in_axes=(None, 0))(params, x)
