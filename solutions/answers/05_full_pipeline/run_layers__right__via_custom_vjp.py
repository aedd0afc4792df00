"""Writes the rule of the gradient itself: backward, a layer is computed again."""


def run_layers(layer, params, x):
    @jax.custom_vjp
    def once(own, h):
        return layer(own, h)

    def forward(own, h):
        return layer(own, h), (own, h)

    def backward(inputs, grad):
        return jax.vjp(layer, *inputs)[1](grad)

    once.defvjp(forward, backward)
    return jax.lax.scan(lambda h, own: (once(own, h), None), x, params)[0]
