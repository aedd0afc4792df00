"""Checkpoints pairs of layers: two layers' insides are there at once.

Told: the insides of two layers or more are there at once: checkpoint each layer
Fails: inputs alone are kept
"""


def run_layers(layer, params, x):
    count = len(jax.tree.leaves(params)[0])
    size = 2 if count % 2 == 0 else 1
    groups = jax.tree.map(lambda a: a.reshape(-1, size, *a.shape[1:]), params)

    def step(x, own):
        return layer(own, x), None

    @jax.checkpoint
    def group(x, own):
        return jax.lax.scan(step, x, own)[0]

    return jax.lax.scan(lambda x, own: (group(x, own), None), x, groups)[0]
