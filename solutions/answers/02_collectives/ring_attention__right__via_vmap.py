"""Works on one query, mapped over the device's queries, and on both neighbours' sides."""


def one_more(state, k, v, q):
    top, total, weighted = state
    scores = k @ q / jnp.sqrt(len(q))
    new = jnp.maximum(top, scores.max())
    powers, fading = jnp.exp(scores - new), jnp.exp(top - new)
    return new, fading * total + powers.sum(), fading * weighted + powers @ v


def ring_attention(q, k, v, axis_name):
    num_devices = lax.axis_size(axis_name)
    right = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    left = [(b, a) for a, b in right]
    add = jax.vmap(one_more, in_axes=(0, None, None, 0))
    rows = jnp.zeros(len(q))
    state = add((rows - jnp.inf, rows, jnp.zeros(v.shape)), k, v, q)
    forward = backward = k, v
    for step in range(num_devices - 1):
        if step % 2:
            backward = lax.ppermute(backward, axis_name, left)
            state = add(state, *backward, q)
        else:
            forward = lax.ppermute(forward, axis_name, right)
            state = add(state, *forward, q)
    return state[2] / state[1][:, None]
