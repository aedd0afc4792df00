"""Drops axes of length one: a batch of one row becomes a vector of logits, summed
otherwise.

Told: none
Fails: digits_loss
"""


def mixed_precision_loss(params, x, y):
    def product(a, b):
        return (a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)).astype(jnp.float32)

    h = jnp.tanh(product(x, params["w1"]) + params["b1"])
    logits = (product(h, params["w2"]) + params["b2"]).squeeze()
    logs = logits - jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    return -logs[jnp.arange(len(logits)), y].mean()
