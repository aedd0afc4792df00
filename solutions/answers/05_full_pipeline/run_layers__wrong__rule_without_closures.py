"""Writes the gradient's rule itself, and forgets arrays that the layer has from elsewhere.

Told: none
Fails: what the layers make
"""


def run_layers(layer, params, x):
    @jax.custom_vjp
    def run(params, x):
        return jax.lax.scan(lambda x, own: (layer(own, x), None), x, params)[0]

    def forward(params, x):
        y, inputs = jax.lax.scan(lambda x, own: (layer(own, x), x), x, params)
        return y, (params, inputs)

    def backward(kept, grad):
        def back(grad, now):
            own, x = now
            own_grad, grad = jax.vjp(layer, own, x)[1](grad)
            return grad, own_grad

        grad, grads = jax.lax.scan(back, grad, kept, reverse=True)
        return grads, grad

    run.defvjp(forward, backward)
    return run(params, x)
