"""Loops in Python over a pmapped step, and waits now and then."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def step(params, x, y):
        grads = jax.grad(mse)(params, x, y)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads)

    parallel = jax.pmap(step)
    for number in range(num_steps):
        params = parallel(params, x, y)
        if number % 10 == 9:
            jax.block_until_ready(params)
    return jax.pmap(lambda p: p)(params)  # on the devices after no step too


def replica_spread(params):
    spreads = jax.tree.map(lambda p: jnp.max(jnp.abs(p - p.mean(0))), params)
    return jax.tree.reduce(max, spreads)
