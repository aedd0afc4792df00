"""Counts by itself, in a while_loop, and sends one flat vector."""

from jax.flatten_util import ravel_pytree


def accumulated_step(params, x, y, lr, axis_name):
    pieces = x.shape[0]
    found = jax.value_and_grad(mlp_loss)
    shapes = jax.eval_shape(found, params, x[0], y[0])
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    total, back = ravel_pytree(zeros)

    def observe(carry):
        m, total = carry
        row = jax.lax.dynamic_index_in_dim(x, m, keepdims=False)
        flat, _ = ravel_pytree(found(params, row, y[m]))
        return m + 1, total + flat

    _, total = jax.lax.while_loop(lambda c: c[0] < pieces, observe, (0, total))
    sent = jax.lax.psum(total, axis_name) / (pieces * jax.lax.axis_size(axis_name))
    loss, grads = back(sent)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss
