"""Takes one layer too few.

Told: none
Fails: what the layers make; the same gradient
"""


def run_layers(layer, params, x):
    kept = jax.checkpoint(layer)
    rest = jax.tree.map(lambda leaf: leaf[:-1], params)
    return jax.lax.scan(lambda h, own: (kept(own, h), None), x, rest)[0]
