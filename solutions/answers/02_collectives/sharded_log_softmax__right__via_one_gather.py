"""Gathers maximum and sum together."""


def sharded_log_softmax(logits, axis_name):
    top = logits.max(-1)
    own = jnp.stack([top, jnp.exp(logits - top[:, None]).sum(-1)])
    tops, sums = jnp.moveaxis(lax.all_gather(own, axis_name), 1, 0)
    highest = tops.max(0)
    total = (sums * jnp.exp(tops - highest)).sum(0)
    return logits - (highest + jnp.log(total)).reshape(-1, 1)
