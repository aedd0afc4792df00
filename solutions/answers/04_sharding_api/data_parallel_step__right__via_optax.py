"""Lets Optax take the step."""


@jax.jit
def data_parallel_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    sgd = optax.sgd(lr)
    updates, _ = sgd.update(grads, sgd.init(params))
    return optax.apply_updates(params, updates), loss
