"""Forgets that there are other members.

Told: each device kept its own member's answer
Fails: the mean of the members; only probabilities are sent; large logits are fine
"""


def ensemble_probs(params, x, axis_name):
    return jax.nn.softmax(x @ params["w"] + params["b"])
