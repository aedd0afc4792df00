"""Divides by the norm of the gradients: gradients of zeros become nan.

Told: none
Fails: clip by global norm; then AdamW; warm-up and cosine
"""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    def shorten(grads, params):
        norm = optax.global_norm(grads)
        length = jnp.minimum(norm, max_norm)
        return jax.tree.map(lambda g: g / norm * length, grads)

    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.stateless(shorten), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.lax.pmean(jax.value_and_grad(mlp_loss)(params, x, y), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss
