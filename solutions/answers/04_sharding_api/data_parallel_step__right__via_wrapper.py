"""Calls a compiled function from a plain one."""


def updated(rate, params, grads):
    return {name: params[name] + rate * grads[name] for name in params}


@jax.jit
def compiled_step(rate, params, x, y):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return updated(-rate, params, grads), loss


def data_parallel_step(params, x, y, lr):
    return compiled_step(lr, params, x=x, y=y)
