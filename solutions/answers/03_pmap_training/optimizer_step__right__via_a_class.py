"""Keeps settings in an object, and differentiates a loss per row."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Settings:
    peak_lr: float
    warmup_steps: int
    num_steps: int

    def __call__(self, count):
        rise = optax.linear_schedule(0, self.peak_lr, self.warmup_steps)
        down = optax.cosine_decay_schedule(
            self.peak_lr, self.num_steps - self.warmup_steps
        )
        later = jnp.maximum(count - self.warmup_steps, 0)
        return jnp.where(count < self.warmup_steps, rise(count), down(later))


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    settings = Settings(peak_lr, warmup_steps, num_steps)
    return optax.chain(
        optax.clip_by_global_norm(max_norm),
        optax.adamw(learning_rate=settings, weight_decay=weight_decay),
    )


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    def observe(params):
        rows = jax.vmap(mlp_loss, in_axes=(None, 0, 0))
        return rows(params, x[:, None], y[:, None]).mean()

    loss, grads = jax.value_and_grad(observe)(params)
    mean = dict(
        zip(("loss", "grads"), jax.lax.pmean((loss, grads), axis_name), strict=False)
    )
    updates, opt_state = optimizer.update(mean["grads"], opt_state, params)
    return optax.apply_updates(params, updates), opt_state, mean["loss"]
