"""Averages logits before the softmax: another ensemble, as softmax is not linear.

Told: this is the softmax of the mean logits
Fails: the mean of the members; large logits are fine
"""


def ensemble_probs(params, x, axis_name):
    return jax.nn.softmax(lax.pmean(x @ params["w"] + params["b"], axis_name))
