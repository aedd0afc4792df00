"""Adds up sums and counts for the moments, and compares random numbers itself."""

from functools import reduce


def dropout_mask(key, step, shape, axis_name):
    numbers = (step, jax.lax.axis_index(axis_name))
    start = reduce(jax.random.fold_in, numbers, key)
    return jax.random.uniform(start, shape) < 0.5


def cnn_step(state, key, step, x, y, lr, axis_name):
    def check(h):
        flat = h.reshape(-1, h.shape[-1])
        count = len(flat) * jax.lax.psum(1, axis_name)
        mean = jax.lax.psum(flat.sum(0), axis_name) / count
        square = jax.lax.psum(jnp.square(flat - mean).sum(0), axis_name)
        return mean, square / count

    def expect(params):
        size = (y.shape[0], params["out"].shape[0])
        keep = dropout_mask(key, step, size, axis_name)
        logits, used = cnn(params, x, keep, check)
        return cross_entropy(logits, y), used

    grads, used = jax.grad(expect, has_aux=True)(state["params"])
    loss, _ = expect(state["params"])
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    new = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    stats = [moving_average(a, b) for a, b in zip(state["stats"], used, strict=True)]
    return dict(params=new, stats=stats), loss
