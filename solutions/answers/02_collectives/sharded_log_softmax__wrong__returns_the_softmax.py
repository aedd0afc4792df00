"""Divides by the sum and takes no logarithm.

Told: this is the softmax, without a logarithm
Fails: log-softmax over all classes; stable at large logits
"""


def sharded_log_softmax(logits, axis_name):
    shifted = logits - lax.pmax(logits.max(-1, keepdims=True), axis_name)
    powers = jnp.exp(shifted)
    return powers / lax.psum(powers.sum(-1, keepdims=True), axis_name)
