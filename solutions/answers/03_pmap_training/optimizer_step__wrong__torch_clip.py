"""Adds 1e-6 to the norm, as PyTorch does: tiny gradients are clipped too far.

Told: none
Fails: clip by global norm; then AdamW; warm-up and cosine
"""


def _clip(max_norm):
    def update(grads, state, params=None):
        norm = optax.global_norm(grads)
        scale = jnp.minimum(1, max_norm / (norm + 1e-6))
        return jax.tree.map(lambda g: g * scale, grads), state

    return optax.GradientTransformation(lambda _: optax.EmptyState(), update)


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    rate = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(rate, weight_decay=weight_decay)
    return optax.chain(_clip(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    found = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean(found, axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss
