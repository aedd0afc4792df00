"""Loops in Python: the program holds each layer anew.

Told: none
Fails: inputs alone are kept; one loop
"""


def run_layers(layer, params, x):
    kept = jax.checkpoint(layer)
    for number in range(len(jax.tree.leaves(params)[0])):
        x = kept(jax.tree.map(lambda leaf, n=number: leaf[n], params), x)
    return x
