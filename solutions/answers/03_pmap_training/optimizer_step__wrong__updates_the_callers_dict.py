"""Puts the new parameters into the dict that it was given.

Told: none
Fails: like one device
"""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    rate = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(rate, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    out = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean(out, axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params.update(optax.apply_updates(params, updates))
    return params, opt_state, loss
