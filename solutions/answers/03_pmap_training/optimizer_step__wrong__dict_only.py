"""A mask for dicts alone: fails for a list at the top of the tree.

Told: none
Fails: clip by global norm; then AdamW; warm-up and cosine
"""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)

    def everything(params):
        return {name: True for name in params.keys()}

    return optax.chain(
        optax.clip_by_global_norm(max_norm),
        optax.adamw(schedule, weight_decay=weight_decay, mask=everything),
    )


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.lax.pmean(jax.value_and_grad(mlp_loss)(params, x, y), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss
