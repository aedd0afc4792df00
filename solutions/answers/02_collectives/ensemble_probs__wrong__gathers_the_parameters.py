"""Sends every member's parameters to every device.

Told: the parameters were sent
Fails: only probabilities are sent
"""


def ensemble_probs(params, x, axis_name):
    everyone = lax.all_gather(params, axis_name)
    logits = x @ everyone["w"] + everyone["b"][:, None]
    return jax.nn.softmax(logits).mean(0)
