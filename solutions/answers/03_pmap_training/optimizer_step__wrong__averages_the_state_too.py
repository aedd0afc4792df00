"""Averages updates and state after each local update: replicas agree, on the wrong
numbers.

Told: none
Fails: clip by global norm; like one device; then AdamW; warm-up and cosine; one sync
"""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    updates, new = optimizer.update(grads, opt_state, params)
    loss, updates, mean = jax.lax.pmean((loss, updates, new), axis_name)
    state = jax.tree.map(lambda m, n: m.astype(n.dtype), mean, new)
    return optax.apply_updates(params, updates), state, loss
