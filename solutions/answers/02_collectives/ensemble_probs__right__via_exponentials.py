"""Writes the softmax by hand."""


def ensemble_probs(params, x, axis_name):
    w, b = params["w"], params["b"]
    logits = jnp.dot(x, w) + b[None, :]
    powers = jnp.exp(logits - jnp.max(logits, axis=1, keepdims=True))
    probs = powers / jnp.sum(powers, axis=1, keepdims=True)
    return lax.psum(probs, axis_name) / lax.psum(1, axis_name)
