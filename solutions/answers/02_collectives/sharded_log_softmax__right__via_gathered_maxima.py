"""Gathers the devices' maxima and sums exponentials."""


def sharded_log_softmax(logits, axis_name):
    top = lax.all_gather(jnp.max(logits, axis=1), axis_name).max(axis=0)
    total = lax.psum(jnp.exp(logits - top[:, None]).sum(axis=1), axis_name)
    return logits - top[:, None] - jnp.log(total)[:, None]
