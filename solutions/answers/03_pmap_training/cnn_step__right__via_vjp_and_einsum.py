"""Takes second moments about a shared mean by einsum, and pulls the gradient back."""


def dropout_mask(key, step, shape, axis_name):
    device = jax.lax.axis_index(axis_name)
    return jax.random.bernoulli(
        jax.random.fold_in(jax.random.fold_in(key, step), device), p=0.5, shape=shape
    )


def cnn_step(state, key, step, x, y, lr, axis_name):
    params, old = state["params"], state["stats"]
    rows, width = len(x), params["out"].shape[0]
    mask = dropout_mask(key, step, (rows, width), axis_name)

    def start(h):
        mean = jax.lax.pmean(jnp.einsum("bijc->c", h), axis_name)
        mean = mean / (h.shape[0] * h.shape[1] * h.shape[2])
        gap = h - mean
        second = jnp.einsum("bijc,bijc->c", gap, gap) / (h.size // h.shape[-1])
        return mean, jax.lax.pmean(second, axis_name)

    def loss_of(params):
        logits, used = cnn(params, x, mask.astype(jnp.float32), start)
        return cross_entropy(logits, y), used

    loss, back, used = jax.vjp(loss_of, params, has_aux=True)
    grads = jax.lax.pmean(back(jnp.ones(()))[0], axis_name)
    leaves, kind = jax.tree.flatten(params)
    moved = [p - lr * g for p, g in zip(leaves, jax.tree.leaves(grads), strict=True)]
    stats = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, old, used)
    loss = jax.lax.pmean(loss, axis_name)
    return {"params": kind.unflatten(moved), "stats": stats}, loss
