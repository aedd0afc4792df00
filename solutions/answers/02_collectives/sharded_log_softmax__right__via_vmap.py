"""Works on one row, mapped over the rows."""


def sharded_log_softmax(logits, axis_name):
    def of_row(row):
        shifted = row - lax.pmax(jnp.max(row), axis_name)
        return shifted - jnp.log(lax.psum(jnp.sum(jnp.exp(shifted)), axis_name))

    return jax.vmap(of_row)(logits)
