"""Takes the sigmoid where there is one class: its probability is 1.

Told: none
Fails: the mean of the members
"""


def ensemble_probs(params, x, axis_name):
    logits = x @ params["w"] + params["b"]
    if logits.shape[-1] == 1:
        probs = jax.nn.sigmoid(logits)
    else:
        probs = jax.nn.softmax(logits, axis=-1)
    return lax.pmean(probs, axis_name)
