"""Clips in the step, by the norm of one example, whatever the optimizer does.

Told: none
Fails: clip by global norm; then AdamW; warm-up and cosine
"""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    return optax.adamw(schedule, weight_decay=weight_decay)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    scale = jnp.minimum(1, 2.0 / optax.global_norm(grads))
    grads = jax.tree.map(lambda g: g * scale, grads)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss
