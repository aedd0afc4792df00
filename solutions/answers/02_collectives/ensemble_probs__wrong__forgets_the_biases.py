"""Leaves the biases out.

Told: the biases were left out
Fails: the mean of the members
"""


def ensemble_probs(params, x, axis_name):
    return lax.pmean(jax.nn.softmax(x @ params["w"]), axis_name)
