"""Clips each device's own gradient, then averages: right on one device.

Told: clipping saw each device's own gradient
Fails: clip by global norm; like one device; then AdamW; warm-up and cosine
"""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    def clip_and_sync(grads, state, params=None):
        clip = optax.clip_by_global_norm(max_norm)
        grads, _ = clip.update(grads, clip.init(grads))
        return jax.lax.pmean(grads, "devices"), state

    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    first = optax.GradientTransformation(
        lambda params: optax.EmptyState(), clip_and_sync
    )
    return optax.chain(first, optax.adamw(schedule, weight_decay=weight_decay))


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    loss = jax.lax.pmean(loss, axis_name)
    return optax.apply_updates(params, updates), opt_state, loss
