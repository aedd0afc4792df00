"""Takes the columns of x by a product with ones and zeros: more work than x @ W.

Told: none
Fails: no extra arithmetic
"""


def overlapped_matmul(x, w, axis_name):
    size, me = jax.lax.axis_size(axis_name), jax.lax.axis_index(axis_name)
    to_the_left = [(d, (d - 1) % size) for d in range(size)]
    result, columns = 0.0, x.reshape(len(x), size, len(w))
    for step in range(size):
        piece = jax.nn.one_hot((me + step) % size, size)
        result += jnp.tensordot(columns, piece, (1, 0)) @ w
        if step + 1 < size:
            w = jax.lax.ppermute(w, axis_name, to_the_left)
    return result
