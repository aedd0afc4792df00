"""Keeps all products until the last, and adds them up then.

Told: none
Fails: never the whole
"""


def overlapped_matmul(x, w, axis_name):
    count, me = jax.lax.axis_size(axis_name), jax.lax.axis_index(axis_name)
    k = w.shape[0]
    left = [(d, (d - 1) % count) for d in range(count)]

    def product(step, w):
        piece = (me + step) % count
        return jax.lax.dynamic_slice_in_dim(x, piece * k, k, axis=1) @ w

    def body(w, step):
        return jax.lax.ppermute(w, axis_name, left), product(step, w)

    w, products = jax.lax.scan(body, w, jnp.arange(count - 1))
    return products.sum(axis=0) + product(count - 1, w)
