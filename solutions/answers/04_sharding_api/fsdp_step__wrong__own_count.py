"""Corrects Adam's bias by its own count of calls, not by the state's.

Told: none
Fails: one step of Adam
"""


def fsdp_step(shardings):
    calls = itertools.count()

    @functools.partial(jax.jit, out_shardings=(shardings, None), donate_argnums=0)
    def step(state, x, y, count):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        adam = state["adam"]
        first = adam[0]._replace(count=count)
        updates, new = make_adam().update(grads, (first, *adam[1:]), state["params"])
        new = (new[0]._replace(count=adam[0].count + 1), *new[1:])
        return {
            "params": optax.apply_updates(state["params"], updates),
            "adam": new,
        }, loss

    return lambda state, x, y: step(state, x, y, np.int32(next(calls)))
