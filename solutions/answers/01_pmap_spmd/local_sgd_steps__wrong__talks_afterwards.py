"""Clips to the largest replica afterwards: nothing changes, and devices send.

Told: none
Fails: no communication
"""


def local_sgd_steps(params, x, y, lr, num_steps):
    def run(params, x, y):
        def step(i, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    trained = jax.pmap(run)(params, x, y)
    return jax.tree.map(lambda p: jnp.minimum(p, p.max(0)), trained)


def replica_spread(params):
    return max(
        float(abs(a - a.mean(0)).max())
        for a in map(np.asarray, jax.tree.leaves(params))
    )
