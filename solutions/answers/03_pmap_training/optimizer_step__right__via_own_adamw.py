"""Writes all of the optimizer by hand, as one transformation."""

from typing import Any, NamedTuple


class Moments(NamedTuple):
    step: Any
    mean: Any
    square: Any


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    def start(params):
        zeros = jax.tree.map(jnp.zeros_like, params)
        return Moments(jnp.zeros((), jnp.int32), zeros, zeros)

    def update(grads, state, params=None):
        norm = optax.global_norm(grads)
        grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, max_norm / norm), grads)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.mean, grads)
        square = jax.tree.map(
            lambda s, g: 0.999 * s + 0.001 * g * g, state.square, grads
        )
        n = state.step + 1
        part = (state.step - warmup_steps) / (num_steps - warmup_steps)
        fall = (1 + jnp.cos(jnp.pi * part)) / 2
        rate = peak_lr * jnp.where(part < 0, state.step / warmup_steps, fall)

        def take(m, s, p):
            scaled = jnp.sqrt(s / (1 - 0.999**n)) + 1e-8
            return -rate * (m / (1 - 0.9**n) / scaled + weight_decay * p)

        return jax.tree.map(take, mean, square, params), Moments(n, mean, square)

    return optax.GradientTransformation(start, update)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    value, back = jax.vjp(lambda p: mlp_loss(p, x, y), params)
    grads = back(jnp.float32(1))[0]
    value, grads = jax.tree.map(lambda a: jax.lax.pmean(a, axis_name), (value, grads))
    updates, state = optimizer.update(grads, opt_state, params)
    return optax.tree_utils.tree_add(params, updates), state, value
