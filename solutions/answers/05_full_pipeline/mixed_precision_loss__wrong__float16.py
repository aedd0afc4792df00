"""Takes float16, whose range is small.

Told: none
Fails: bfloat16 products
"""


def mixed_precision_loss(params, x, y):
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.float16), params)
    h = jnp.tanh(x.astype(jnp.float16) @ low["w1"] + low["b1"])
    logits = (h @ low["w2"]).astype(jnp.float32) + params["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
