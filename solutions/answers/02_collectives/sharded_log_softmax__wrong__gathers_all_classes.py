"""Builds the whole row on every device.

Told: the logits were sent
Fails: logits stay on their device; two numbers per row are sent
"""


def sharded_log_softmax(logits, axis_name):
    whole = lax.all_gather(logits, axis_name, axis=1, tiled=True)
    own = lax.axis_index(axis_name) * logits.shape[1]
    return lax.dynamic_slice_in_dim(jax.nn.log_softmax(whole), own, logits.shape[1], 1)
