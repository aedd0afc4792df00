"""Leaves the maximum out.

Told: exp overflows: subtract each row's maximum
Fails: stable at large logits; any number of devices
"""


def sharded_log_softmax(logits, axis_name):
    return logits - jnp.log(lax.psum(jnp.exp(logits).sum(-1, keepdims=True), axis_name))
