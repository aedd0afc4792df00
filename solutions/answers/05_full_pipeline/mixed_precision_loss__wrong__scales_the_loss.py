"""Scales the loss, as float16 needs it, and leaves it scaled.

Told: the loss is still scaled
Fails: digits_loss; float32 gradients
"""


def mixed_precision_loss(params, x, y):
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    h = jnp.tanh(x.astype(jnp.bfloat16) @ low["w1"] + low["b1"])
    logits = (h @ low["w2"]).astype(jnp.float32) + params["b2"]
    return 1024 * optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
