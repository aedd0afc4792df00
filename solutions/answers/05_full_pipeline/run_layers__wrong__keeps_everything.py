"""Scans without a checkpoint: all that a layer computed is kept.

Told: nothing is computed again: jax.checkpoint is missing
Fails: inputs alone are kept
"""


def run_layers(layer, params, x):
    return jax.lax.scan(lambda h, own: (layer(own, h), None), x, params)[0]
