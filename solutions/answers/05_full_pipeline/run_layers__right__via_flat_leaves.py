"""Scans over a list of leaves, and builds each layer's tree."""


def run_layers(layer, params, x):
    leaves, structure = jax.tree.flatten(params)

    def step(h, parts):
        return jax.checkpoint(layer)(structure.unflatten(parts), h), None

    return jax.lax.scan(step, jnp.asarray(x), leaves)[0]
