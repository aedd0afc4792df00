"""Forgets that there are other members."""


def ensemble_probs(params, x, axis_name):
    return jax.nn.softmax(x @ params["w"] + params["b"])
