"""Differentiates the mean of all losses: all hidden layers are alive at once.

Told: none
Fails: one microbatch at a time
"""


def accumulated_step(params, x, y, lr, axis_name):
    def mean_loss(params):
        total = 0.0
        for microbatch in range(len(x)):
            total += mlp_loss(params, x[microbatch], y[microbatch])
        return total / len(x)

    found = jax.value_and_grad(mean_loss)(params)
    loss, grads = jax.lax.pmean(found, axis_name)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss
