"""Maps the microbatches one by one, and averages what comes back."""


def accumulated_step(params, x, y, lr, axis_name):
    def start(piece):
        return jax.value_and_grad(mlp_loss)(params, *piece)

    losses, grads = jax.lax.map(start, (x, y))
    mean = losses.mean(), {name: g.mean(axis=0) for name, g in grads.items()}
    loss, mean = jax.lax.pmean(mean, axis_name)
    return {name: params[name] - lr * mean[name] for name in params}, loss
