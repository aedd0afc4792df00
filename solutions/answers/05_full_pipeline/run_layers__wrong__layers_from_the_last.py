"""Takes the layers from the last to the first.

Told: none
Fails: what the layers make; the same gradient
"""


def run_layers(layer, params, x):
    kept = jax.checkpoint(layer)
    step = lambda h, own: (kept(own, h), None)  # noqa: E731
    return jax.lax.scan(step, x, params, reverse=True)[0]
