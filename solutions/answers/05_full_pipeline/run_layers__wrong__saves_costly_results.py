"""Keeps what is costly to compute: the results of tanh and exp, in each layer.

Told: none
Fails: inputs alone are kept
"""


def run_layers(layer, params, x):
    def costly(primitive, *_, **__):
        return primitive.name in ("tanh", "exp", "logistic")

    one = jax.checkpoint(layer, policy=costly)
    return jax.lax.scan(lambda x, own: (one(own, x), None), x, params)[0]
