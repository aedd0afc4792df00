"""Subtracts the largest logit before the cast to float32: the differences are rounded.

Told: none
Fails: float32 from the logits on
"""


def mixed_precision_loss(params, x, y):
    def half(a):
        return a.astype(jnp.bfloat16)

    h = jnp.tanh((half(x) @ half(params["w1"])).astype(jnp.float32) + params["b1"])
    logits = half(h) @ half(params["w2"]) + half(params["b2"])
    stable = (logits - logits.max(axis=1, keepdims=True)).astype(jnp.float32)
    right = jnp.take_along_axis(stable, y[:, None], axis=1)[:, 0]
    return (jnp.log(jnp.exp(stable).sum(axis=1)) - right).mean()
