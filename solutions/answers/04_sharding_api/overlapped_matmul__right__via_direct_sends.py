"""Sends the own piece to each device, without a ring."""


def overlapped_matmul(x, w, axis_name):
    count, device = jax.lax.axis_size(axis_name), jax.lax.axis_index(axis_name)
    parts = x.reshape(len(x), count, len(w))
    result = parts[:, device] @ w
    for shift in range(1, count):
        pairs = [(d, (d + shift) % count) for d in range(count)]
        piece = jax.lax.ppermute(w, axis_name, pairs)
        result = result + parts[:, (device - shift) % count] @ piece
    return result
