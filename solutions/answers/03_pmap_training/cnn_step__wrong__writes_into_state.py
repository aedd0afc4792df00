"""Writes the new parameters into the dictionary that it was given.

Told: none
Fails: arguments stay
"""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(
        jax.random.fold_in(key, step), jax.lax.axis_index(axis_name)
    )
    return jax.random.bernoulli(key, 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    keep = dropout_mask(key, step, (len(x), len(state["params"]["out"])), axis_name)

    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)

    def loss_of(params):
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    (loss, used), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    state["params"] = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    state["stats"] = moving_average(state["stats"], used)
    return state, loss
