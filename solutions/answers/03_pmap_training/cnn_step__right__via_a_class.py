"""Keeps the axis in an object, and sends loss and gradients as one flat vector."""

from jax.flatten_util import ravel_pytree


class Workers:
    def __init__(self, axis):
        self.axis = axis

    def mean(self, value):
        return jax.lax.psum(value, self.axis) / jax.lax.psum(1.0, self.axis)

    def observe(self, h):
        mean = self.mean(jnp.mean(h, axis=(0, 1, 2)))
        own = jnp.mean(h, axis=(0, 1, 2))
        return mean, self.mean(jnp.var(h, axis=(0, 1, 2)) + (own - mean) ** 2)


def dropout_mask(key, step, shape, axis_name):
    for number in (step, jax.lax.axis_index(axis_name)):
        key = jax.random.fold_in(key, number)
    return jax.random.bernoulli(key, shape=shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    workers, _moments = Workers(axis_name), []

    def loss_of(params, stats):
        keep = dropout_mask(key, step, (len(y), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, workers.observe)
        return cross_entropy(logits, y), moving_average(stats, used)

    found = jax.value_and_grad(loss_of, has_aux=True)
    (loss, stats), grads = found(state["params"], state["stats"])
    flat, back = ravel_pytree((loss, grads))
    loss, grads = back(workers.mean(flat))
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"stats": stats, "params": params}, loss
