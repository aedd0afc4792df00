"""Sums the members' probabilities: right with one member only.

Told: the members' probabilities were summed
Fails: the mean of the members; large logits are fine
"""


def ensemble_probs(params, x, axis_name):
    return lax.psum(jax.nn.softmax(x @ params["w"] + params["b"]), axis_name)
