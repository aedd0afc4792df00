"""Spells the parameters out and forgets the bias that starts at zero.

Told: none
Fails: one step of SGD
"""


def device_step(params, x, y, lr):
    def loss_of(w1, b1, w2):
        hidden = jnp.tanh(x @ w1 + b1)
        return jnp.mean(((hidden @ w2)[:, 0] - y) ** 2)

    found = jax.value_and_grad(loss_of, argnums=(0, 1, 2))
    loss, grads = found(params["w1"], params["b1"], params["w2"])
    loss, (w1, b1, w2) = jax.lax.pmean((loss, grads), "devices")
    new = {"w1": w1, "b1": b1, "w2": w2}
    new = {name: params[name] - lr * grad for name, grad in new.items()}
    return new | {"b2": params["b2"]}, loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)
