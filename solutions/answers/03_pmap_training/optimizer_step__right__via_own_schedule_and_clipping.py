"""Writes schedule and clipping by hand; the optimizer is AdamW alone."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    def schedule(count):
        part = (count - warmup_steps) / (num_steps - warmup_steps)
        wave = 0.5 * (1 + jnp.cos(jnp.pi * part))
        return peak_lr * jnp.where(count < warmup_steps, count / warmup_steps, wave)

    def clip(grads, state, params=None):
        norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
        scale = jnp.minimum(1, max_norm / norm)
        return jax.tree.map(lambda g: g * scale, grads), state

    clipping = optax.GradientTransformation(lambda params: optax.EmptyState(), clip)
    return optax.chain(clipping, optax.adamw(schedule, weight_decay=weight_decay))


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    grads = jax.tree.map(lambda g: jax.lax.pmean(g, axis_name), grads)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return (
        optax.apply_updates(params, updates),
        opt_state,
        jax.lax.pmean(loss, axis_name),
    )
