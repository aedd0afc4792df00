"""Keeps the finished attention of the blocks so far, and its log-sum-exp."""


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]

    def of_block(k, v):
        scores = q @ k.T / jnp.sqrt(q.shape[1])
        log_sum = jax.nn.logsumexp(scores, axis=1, keepdims=True)
        return jnp.exp(scores - log_sum) @ v, log_sum

    result, log_sum = of_block(k, v)
    for _ in range(num_devices - 1):
        k, v = lax.ppermute((k, v), axis_name, pairs)
        other, its = of_block(k, v)
        both = jnp.logaddexp(log_sum, its)
        result = result * jnp.exp(log_sum - both) + other * jnp.exp(its - both)
        log_sum = both
    return result
