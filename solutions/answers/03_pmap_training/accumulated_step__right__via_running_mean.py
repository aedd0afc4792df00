"""Keeps a running mean in a scan over numbers, by its own derivative rules' helper."""

import functools


class Mean:
    def __init__(self, params, x, y):
        self.params, self.x, self.y = params, x, y

    def check(self, mean, m):
        value, pull = jax.vjp(lambda p: mlp_loss(p, self.x[m], self.y[m]), self.params)
        new = value, pull(jnp.ones(()))[0]
        part = 1.0 / (m + 1)
        return jax.tree.map(lambda a, b: a + (b - a) * part, mean, new), ()


def accumulated_step(params, x, y, lr, axis_name):
    start = jnp.float32(0), jax.tree.map(lambda p: 0 * p, params)
    take = Mean(params, x, y).check
    mean, _ = jax.lax.scan(take, start, jnp.arange(len(y)))
    average = functools.partial(jax.lax.pmean, axis_name=axis_name)
    loss, grads = jax.tree.map(average, mean)
    return jax.tree.map(lambda p, g: p + (-lr) * g, params, grads), loss
