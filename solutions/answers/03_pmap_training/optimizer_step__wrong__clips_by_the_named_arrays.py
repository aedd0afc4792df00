"""Computes the norm of the four arrays that the perceptron has.

Told: none
Fails: clip by global norm; then AdamW; warm-up and cosine
"""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    def clip(grads, state, params=None):
        squares = [jnp.sum(grads[name] ** 2) for name in ("w1", "b1", "w2", "b2")]
        scale = jnp.minimum(1, max_norm / jnp.sqrt(sum(squares)))
        return jax.tree.map(lambda g: g * scale, grads), state

    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    clipping = optax.GradientTransformation(lambda params: optax.EmptyState(), clip)
    return optax.chain(clipping, optax.adamw(schedule, weight_decay=weight_decay))


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss
