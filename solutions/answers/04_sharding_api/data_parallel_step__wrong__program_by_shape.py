"""Keeps programs by shape alone: the same shapes on fewer devices fail.

Told: none
Fails: one step of SGD; nothing is remembered
"""

_programs = {}


@jax.jit
def _step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def data_parallel_step(params, x, y, lr):
    if isinstance(x, jax.core.Tracer):
        return _step(params, x, y, lr)
    if x.shape not in _programs:
        _programs[x.shape] = _step.lower(params, x, y, lr).compile()
    return _programs[x.shape](params, x, y, lr)
