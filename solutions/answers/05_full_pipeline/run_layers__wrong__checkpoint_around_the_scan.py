"""Computes all layers again at once: then all of their insides are there.

Told: the insides of two layers or more are there at once: checkpoint each layer
Fails: inputs alone are kept
"""


def run_layers(layer, params, x):
    @jax.checkpoint
    def whole(params, x):
        return jax.lax.scan(lambda h, own: (layer(own, h), None), x, params)[0]

    return whole(params, x)
