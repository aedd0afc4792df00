"""Adds the variance of the devices' means to the mean of their variances."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        local_mean, local_var = batch_moments(h)
        mean = jax.lax.pmean(local_mean, axis_name)
        var = jax.lax.pmean(local_var + (local_mean - mean) ** 2, axis_name)
        return mean, var

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    (loss, used), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    grads = jax.tree.map(lambda g: jax.lax.pmean(g, axis_name), grads)
    loss = jax.lax.pmean(loss, axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss
