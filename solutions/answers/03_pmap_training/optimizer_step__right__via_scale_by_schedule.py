"""Scales Adam's direction by a negative schedule; averages before the sum."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    rate = optax.schedules.warmup_cosine_decay_schedule(
        init_value=0.0,
        peak_value=peak_lr,
        warmup_steps=warmup_steps,
        decay_steps=num_steps,
        end_value=0.0,
    )
    parts = [optax.clip_by_global_norm(max_norm), optax.scale_by_adam()]
    parts.append(optax.add_decayed_weights(weight_decay))
    parts.append(optax.scale_by_schedule(lambda count: -rate(count)))
    return optax.chain(*parts)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    workers = jax.lax.psum(1, axis_name)

    def share(params):
        return mlp_loss(params, x, y) / workers

    loss, grads = jax.lax.psum(jax.value_and_grad(share)(params), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    new = {}
    for name in params:
        new[name] = params[name] + updates[name]
    return new, opt_state, loss
