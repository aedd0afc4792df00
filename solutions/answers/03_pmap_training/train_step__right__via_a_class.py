"""Keeps the mapped function in an object that is made once; NumPy arrays go in."""

import functools


class Trainer:
    axis = "workers"

    def __init__(self):
        share = functools.partial(jax.pmap, axis_name=self.axis)
        self.start = share(self.on_one, in_axes=(0, 0, 0, None))

    def on_one(self, params, x, y, lr):
        def loss_of(leaves):
            return mlp_loss(jax.tree.unflatten(kind, leaves), x, y)

        leaves, kind = jax.tree.flatten(params)
        loss, grads = jax.value_and_grad(loss_of)(leaves)
        workers = jax.lax.axis_size(self.axis)
        new = []
        for leaf, grad in zip(leaves, grads, strict=True):
            new.append(leaf - lr * (jax.lax.psum(grad, self.axis) / workers))
        return jax.tree.unflatten(kind, new), jax.lax.psum(loss / workers, self.axis)


trainer = Trainer()
device_step = trainer.on_one


def train_step(params, x, y, lr):
    return trainer.start(params, x, y, lr)
