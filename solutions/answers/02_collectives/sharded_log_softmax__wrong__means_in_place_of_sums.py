"""Averages the sums over the devices: right on one device only.

Told: the sums were averaged, not added up
Fails: log-softmax over all classes; stable at large logits
"""


def sharded_log_softmax(logits, axis_name):
    shifted = logits - lax.pmax(logits.max(-1, keepdims=True), axis_name)
    return shifted - jnp.log(
        lax.pmean(jnp.exp(shifted).sum(-1, keepdims=True), axis_name)
    )
