"""Chains the other way round: clips Adam's update, not the gradient.

Told: nothing was clipped (by global norm, before AdamW)
Fails: clip by global norm; like one device; then AdamW; warm-up and cosine
"""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(adamw, optax.clip_by_global_norm(max_norm))


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss
