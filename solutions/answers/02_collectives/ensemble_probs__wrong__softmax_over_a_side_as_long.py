"""Looks for the classes by their number, and finds the rows where these are as many.

Told: none
Fails: the mean of the members
"""


def ensemble_probs(params, x, axis_name):
    logits = x @ params["w"] + params["b"]
    classes = logits.shape.index(len(params["b"]))
    return lax.pmean(jax.nn.softmax(logits, axis=classes), axis_name)
