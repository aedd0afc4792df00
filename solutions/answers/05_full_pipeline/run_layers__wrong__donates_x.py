"""Donates x: called without a gradient, it is gone.

Told: none
Fails: arguments stay
"""

from functools import partial


@partial(jax.jit, static_argnums=0, donate_argnums=2)
def run_layers(layer, params, x):
    one = jax.checkpoint(layer)
    return jax.lax.scan(lambda x, own: (one(own, x), None), x, params)[0]
