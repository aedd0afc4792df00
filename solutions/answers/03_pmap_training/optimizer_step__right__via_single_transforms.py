"""Builds AdamW out of its parts, and the schedule out of two."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.join_schedules(
        [
            optax.linear_schedule(0.0, peak_lr, warmup_steps),
            optax.cosine_decay_schedule(peak_lr, num_steps - warmup_steps),
        ],
        [warmup_steps],
    )
    return optax.chain(
        optax.clip_by_global_norm(max_norm),
        optax.scale_by_adam(),
        optax.add_decayed_weights(weight_decay),
        optax.scale_by_learning_rate(schedule),
    )


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    found = jax.value_and_grad(mlp_loss)(params, x, y)
    count = jax.lax.psum(1, axis_name)
    loss, grads = jax.tree.map(lambda t: t / count, jax.lax.psum(found, axis_name))
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return jax.tree.map(jnp.add, params, updates), opt_state, loss
