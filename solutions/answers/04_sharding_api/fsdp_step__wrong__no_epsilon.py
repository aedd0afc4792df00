"""Breaks "a step with make_adam()": Adam by hand without epsilon; where gradients are 0
(a dead hidden unit, x of zeros) it is nan.

Told: none
Fails: one step of Adam; nothing is remembered
"""


def fsdp_step(shardings):
    def step(state, x, y):
        params, adam = state["params"], state["adam"]
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        t = adam[0].count + 1
        mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, adam[0].mu, grads)
        nu = jax.tree.map(lambda n, g: 0.999 * n + 0.001 * g * g, adam[0].nu, grads)
        c1, c2 = 1 - 0.9**t, 1 - 0.999**t
        new = jax.tree.map(
            lambda p, m, n: p - 0.003 * (m / c1) / jnp.sqrt(n / c2), params, mu, nu
        )
        return {
            "params": new,
            "adam": (adam[0]._replace(count=t, mu=mu, nu=nu), *adam[1:]),
        }, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)
