"""Injects the schedule, and sends one flat vector."""

from jax.flatten_util import ravel_pytree


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    def start(step):
        up = peak_lr * step / warmup_steps
        turn = jnp.pi * (step - warmup_steps) / (num_steps - warmup_steps)
        return jax.lax.select(step < warmup_steps, up, peak_lr * jnp.cos(turn / 2) ** 2)

    inner = optax.inject_hyperparams(optax.adamw)(start, weight_decay=weight_decay)
    return optax.named_chain(
        ("clip", optax.clip_by_global_norm(max_norm)), ("adamw", inner)
    )


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    flat, back = ravel_pytree(jax.value_and_grad(mlp_loss)(params, x, y))
    loss, check = back(jax.lax.pmean(flat, axis_name))
    expect, opt_state = optimizer.update(check, opt_state, params=params)
    return optax.apply_updates(params, expect), opt_state, loss
