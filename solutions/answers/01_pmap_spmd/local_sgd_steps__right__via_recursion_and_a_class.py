"""Takes a step and then the others, by an object that is callable."""


class Descent:
    def __init__(self, lr):
        self.lr = lr

    def __call__(self, params, x, y, num_steps):
        if not num_steps:
            return params
        _, grads = jax.value_and_grad(mse)(params, x, y)
        w, b = (params[name] - self.lr * grads[name] for name in ("w", "b"))
        return self(dict(w=w, b=b), x, y, num_steps - 1)


def local_sgd_steps(params, x, y, lr, num_steps):
    mapped = jax.pmap(Descent(lr), static_broadcasted_argnums=3)
    return mapped(params, x, y, num_steps)


def replica_spread(params):
    def observe(largest, leaf):
        mean = sum(row for row in leaf) / len(leaf)
        return max(largest, *(float(np.abs(row - mean).max()) for row in leaf))

    return jax.tree.reduce(observe, params, 0.0)
