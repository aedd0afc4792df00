"""Gathers all rows, and takes their moments."""


def dropout_mask(key, step, shape, axis_name):
    key = jax.random.fold_in(key, step)
    devices = jnp.arange(jax.lax.axis_size(axis_name))
    keys = jax.vmap(lambda d: jax.random.fold_in(key, d))(devices)
    return jax.random.bernoulli(keys[jax.lax.axis_index(axis_name)], 0.5, shape)


def cnn_step(state, key, step, x, y, lr, axis_name):
    params, stats = state["params"], state["stats"]
    keep = dropout_mask(key, step, (x.shape[0], params["out"].shape[0]), axis_name)

    def observe(h):
        return batch_moments(jax.lax.all_gather(h, axis_name, tiled=True))

    def start(params):
        logits, used = cnn(params, x, keep, observe)
        return cross_entropy(logits, y), used

    loss, pull, used = jax.vjp(start, params, has_aux=True)
    (grads,) = pull(jnp.float32(1))
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    after = jax.tree.map(lambda p, g: p - lr * g, params, grads)
    return dict(params=after, stats=moving_average(stats, used)), loss
