"""Normalises over the classes of its own device."""


def sharded_log_softmax(logits, axis_name):
    return jax.nn.log_softmax(logits)
