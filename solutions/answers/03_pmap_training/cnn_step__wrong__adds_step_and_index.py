"""Folds in step + device: device 1's mask of this step is device 0's of the next.

Told: none
Fails: step, then device; one step of SGD; this mask
"""


def dropout_mask(key, step, shape, axis_name):
    number = step + jax.lax.axis_index(axis_name)
    return jax.random.bernoulli(jax.random.fold_in(key, number), 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = jax.lax.pmean((found, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss
