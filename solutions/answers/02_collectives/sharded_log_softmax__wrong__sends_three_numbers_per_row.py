"""Sums the numbers of classes, too, without need.

Told: none
Fails: two numbers per row are sent
"""


def sharded_log_softmax(logits, axis_name):
    shifted = logits - lax.pmax(logits.max(-1, keepdims=True), axis_name)
    powers = jnp.exp(shifted)
    sums = jnp.stack([powers.sum(-1), jnp.ones_like(powers).sum(-1)])
    total, _ = lax.psum(sums, axis_name)
    return shifted - jnp.log(total)[:, None]
