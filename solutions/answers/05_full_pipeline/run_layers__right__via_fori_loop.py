"""Counts the layers, and picks each one's part."""


def run_layers(layer, params, x):
    def own_part(number):
        return jax.tree.map(
            lambda leaf: jax.lax.dynamic_index_in_dim(leaf, number, keepdims=False),
            params,
        )

    num_layers = len(jax.tree.leaves(params)[0])
    once = jax.checkpoint(lambda h, own: layer(own, h))
    return jax.lax.fori_loop(0, num_layers, lambda n, h: once(h, own_part(n)), x)
