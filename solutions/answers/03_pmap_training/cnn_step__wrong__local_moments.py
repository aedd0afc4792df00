"""Normalises with the device's own moments and averages nothing but gradients: right on
one device.

Told: each device took the moments of its own rows
Fails: one step of SGD; moments of all rows; equal on all devices; this mask; running
moments
"""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    moments = batch_moments

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = found, jax.lax.pmean(grads, axis_name)
    loss = jax.lax.pmean(loss, axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss
