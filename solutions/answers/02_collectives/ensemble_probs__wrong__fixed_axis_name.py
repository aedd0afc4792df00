"""Writes the axis name of the lesson's examples into the function.

Told: a collective names an axis that nobody bound: use the argument axis_name, or the
name that pmap was given
Fails: any axis name
"""


def ensemble_probs(params, x, axis_name):
    return lax.pmean(jax.nn.softmax(x @ params["w"] + params["b"]), "i")
