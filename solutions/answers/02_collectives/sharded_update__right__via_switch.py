"""Cuts its slice by a switch; scatters and gathers flat, stacked arrays."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    size = lax.axis_size(axis_name)
    n, *rest = weights.shape
    each, left = divmod(n, size)
    if left:
        raise ValueError(f"{n=} rows cannot be shared by {size} devices")
    flat = lax.psum_scatter(grads.reshape(size, -1), axis_name, scatter_dimension=0)
    new = jax.tree.map(
        lambda v, g: beta * v + g / size, velocity, flat.reshape(each, *rest)
    )
    cuts = [lambda w, d=d: w[d * each : (d + 1) * each] for d in range(size)]
    mine = lax.switch(lax.axis_index(axis_name), cuts, weights)
    whole = lax.all_gather((mine - lr * new).ravel(), axis_name)
    return whole.reshape(weights.shape), new
