"""Forgets that a float32 bias promotes: the second product is float32 again.

Told: a product gets a float32 factor
Fails: bfloat16 products
"""


def mixed_precision_loss(params, x, y):
    w1, w2 = params["w1"].astype(jnp.bfloat16), params["w2"].astype(jnp.bfloat16)
    h = jnp.tanh(x.astype(jnp.bfloat16) @ w1 + params["b1"])
    logits = h @ w2 + params["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
