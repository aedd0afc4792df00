"""Writes the rule of the gradient itself: backward, a layer is computed again."""


def run_layers(layer, params, x):
    first = jax.tree.map(lambda leaf: leaf[0], params)
    # What the layer has from elsewhere becomes arguments: a rule sees no others.
    layer, others = jax.closure_convert(layer, first, x)

    @jax.custom_vjp
    def once(own, h, *others):
        return layer(own, h, *others)

    def forward(*inputs):
        return layer(*inputs), inputs

    def backward(inputs, grad):
        return jax.vjp(layer, *inputs)[1](grad)

    once.defvjp(forward, backward)
    return jax.lax.scan(lambda h, own: (once(own, h, *others), None), x, params)[0]
