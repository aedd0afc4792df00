"""Clips each device's gradient to norm 100 before the sync: right for small ones alone.

Told: none
Fails: like one device; any optimizer
"""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    return optax.chain(
        optax.clip_by_global_norm(max_norm),
        optax.adamw(schedule, weight_decay=weight_decay),
    )


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    scale = jnp.minimum(1.0, 100.0 / (optax.global_norm(grads) + 1e-6))
    grads = jax.tree.map(lambda g: g * scale, grads)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss
