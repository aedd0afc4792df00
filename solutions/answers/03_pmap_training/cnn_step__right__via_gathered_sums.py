"""Gathers each device's sums in place of adding them up."""


def dropout_mask(key, step, shape, axis_name):
    fold = jax.random.fold_in
    return jax.random.bernoulli(
        fold(fold(key, step), jax.lax.axis_index(axis_name)), 0.5, shape
    )


def cnn_step(state, key, step, x, y, lr, axis_name):
    def over_devices(value):
        return jax.lax.all_gather(value, axis_name).mean(axis=0)

    def take(h):
        mean = over_devices(h.mean(axis=(0, 1, 2)))
        return mean, over_devices(((h - mean) ** 2).mean(axis=(0, 1, 2)))

    def run(params, keep):
        logits, used = cnn(params, x, keep, take)
        return cross_entropy(logits, y), used

    keep = dropout_mask(key, step, (len(x), len(state["params"]["out"])), axis_name)
    run = jax.value_and_grad(run, argnums=0, has_aux=True)
    (loss, used), grads = run(state["params"], keep)
    loss, grads = jax.tree.map(over_devices, (loss, grads))
    update = lambda p, g: p + -lr * g  # noqa: E731
    params = jax.tree.map(update, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss
