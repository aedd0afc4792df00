"""Takes the softmax's maximum off while logits are bfloat16.

Told: none
Fails: float32 from the logits on
"""


def mixed_precision_loss(params, x, y):
    low = {name: a.astype(jnp.bfloat16) for name, a in params.items()}
    h = jnp.tanh(x.astype(jnp.bfloat16) @ low["w1"] + low["b1"])
    logits = h @ low["w2"] + low["b2"]
    logits = (logits - logits.max(axis=1, keepdims=True)).astype(jnp.float32)
    logp = logits - jnp.log(jnp.exp(logits).sum(axis=1, keepdims=True))
    return -jnp.take_along_axis(logp, y[:, None], axis=1).mean()
