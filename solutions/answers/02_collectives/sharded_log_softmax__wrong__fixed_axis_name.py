"""Writes the axis name of the lesson's examples into the function.

Told: a collective names an axis that nobody bound: use the argument axis_name, or the
name that pmap was given
Fails: any axis name
"""


def sharded_log_softmax(logits, axis_name):
    shifted = logits - lax.pmax(logits.max(-1, keepdims=True), "i")
    return shifted - jnp.log(lax.psum(jnp.exp(shifted).sum(-1, keepdims=True), "i"))
