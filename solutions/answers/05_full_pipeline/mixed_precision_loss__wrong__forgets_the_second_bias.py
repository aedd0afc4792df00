"""Leaves the last layer's bias out.

Told: none
Fails: digits_loss; float32 gradients
"""


def mixed_precision_loss(params, x, y):
    def product(a, b):
        return (a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)).astype(jnp.float32)

    h = jnp.tanh(product(x, params["w1"]) + params["b1"])
    logits = product(h, params["w2"])
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
