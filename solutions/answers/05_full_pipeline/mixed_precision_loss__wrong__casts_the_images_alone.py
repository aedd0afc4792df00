"""Casts x and not the weights: the product is promoted to float32.

Told: none
Fails: bfloat16 products
"""


def mixed_precision_loss(params, x, y):
    h = jnp.tanh(x.astype(jnp.bfloat16) @ params["w1"] + params["b1"])
    logits = h.astype(jnp.bfloat16) @ params["w2"] + params["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
