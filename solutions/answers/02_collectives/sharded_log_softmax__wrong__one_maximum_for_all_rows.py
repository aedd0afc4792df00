"""Subtracts the largest logit of all rows: rows far below it become infinite.

Told: log(0): a row needs its own maximum
Fails: stable at large logits; any number of devices
"""


def sharded_log_softmax(logits, axis_name):
    shifted = logits - lax.pmax(logits.max(), axis_name)
    total = lax.psum(jnp.exp(shifted).sum(-1, keepdims=True), axis_name)
    return shifted - jnp.log(total)
