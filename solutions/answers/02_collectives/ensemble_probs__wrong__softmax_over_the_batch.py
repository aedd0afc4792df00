"""Normalises each class over the rows.

Told: none
Fails: the mean of the members; large logits are fine
"""


def ensemble_probs(params, x, axis_name):
    return lax.pmean(jax.nn.softmax(x @ params["w"] + params["b"], axis=0), axis_name)
