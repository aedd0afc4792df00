"""Loops in Python while tracing: more to compile, the same program otherwise."""


def accumulated_step(params, x, y, lr, axis_name):
    losses, total = [], None
    for piece in range(len(x)):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x[piece], y[piece])
        losses.append(loss)
        total = grads if total is None else jax.tree.map(jnp.add, total, grads)
    grads = jax.tree.map(lambda g: g / len(x), total)
    loss, grads = jax.lax.pmean((sum(losses) / len(x), grads), axis_name)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss
