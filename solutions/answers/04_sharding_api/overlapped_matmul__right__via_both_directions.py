"""Sends half of each piece to the left and half to the right."""


def overlapped_matmul(x, w, axis_name):
    count, device = jax.lax.axis_size(axis_name), jax.lax.axis_index(axis_name)
    parts = x.reshape(len(x), count, len(w))
    half = (w.shape[1] + 1) // 2
    halves = []
    for piece, way in ((w[:, :half], 1), (w[:, half:], -1)):
        pairs = [(d, (d + way) % count) for d in range(count)]
        result = parts[:, device] @ piece
        for step in range(1, count if piece.size else 1):
            piece = jax.lax.ppermute(piece, axis_name, pairs)
            result += parts[:, (device - way * step) % count] @ piece
        halves.append(result)
    return jnp.concatenate(halves, axis=1)
