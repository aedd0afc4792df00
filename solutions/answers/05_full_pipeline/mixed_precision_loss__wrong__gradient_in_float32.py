"""Lets the products give float32 at once: so the gradient's products get a float32
factor.

Told: the loss's own products are bfloat16, its gradient's are not
Fails: bfloat16 products
"""


def mixed_precision_loss(params, x, y):
    def product(a, b):
        a, b = a.astype(jnp.bfloat16), b.astype(jnp.bfloat16)
        return jnp.matmul(a, b, preferred_element_type=jnp.float32)

    h = jnp.tanh(product(x, params["w1"]) + params["b1"])
    logits = product(h, params["w2"]) + params["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
