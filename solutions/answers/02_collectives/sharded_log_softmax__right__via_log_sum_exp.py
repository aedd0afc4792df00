"""Combines the devices' own log-sum-exps."""


def sharded_log_softmax(logits, axis_name):
    own = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    largest = lax.pmax(own, axis_name)
    total = lax.psum(jnp.exp(own - largest), axis_name)
    return logits - (largest + jnp.log(total))
