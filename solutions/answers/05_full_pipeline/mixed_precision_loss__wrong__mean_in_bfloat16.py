"""Casts the losses of the rows down again before their mean.

Told: none
Fails: float32 from the logits on
"""


def mixed_precision_loss(params, x, y):
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    h = jnp.tanh(x.astype(jnp.bfloat16) @ low["w1"] + low["b1"])
    logits = (h @ low["w2"]).astype(jnp.float32) + params["b2"]
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
    return losses.astype(jnp.bfloat16).mean().astype(jnp.float32)
