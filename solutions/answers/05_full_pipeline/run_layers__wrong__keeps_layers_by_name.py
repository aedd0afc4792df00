"""Keeps layers by their name: another one of the same name is not run.

Told: none
Fails: what the layers make
"""

LAYERS_BY_NAME = {}


def run_layers(layer, params, x):
    name = getattr(layer, "__name__", layer)
    one = LAYERS_BY_NAME.setdefault(name, jax.checkpoint(layer))
    return jax.lax.scan(lambda x, own: (one(own, x), None), x, params)[0]
