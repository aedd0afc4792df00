"""Takes the bfloat16 weights out of the gradient: only the last bias is trained.

Told: none
Fails: float32 gradients
"""


def mixed_precision_loss(params, x, y):
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    low = jax.lax.stop_gradient(low)
    h = jnp.tanh(x.astype(jnp.bfloat16) @ low["w1"] + low["b1"])
    logits = (h @ low["w2"]).astype(jnp.float32) + params["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
