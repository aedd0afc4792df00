"""Normalises over the classes of its own device.

Told: each device normalised over its own classes only
Fails: log-softmax over all classes; stable at large logits
"""


def sharded_log_softmax(logits, axis_name):
    return jax.nn.log_softmax(logits)
