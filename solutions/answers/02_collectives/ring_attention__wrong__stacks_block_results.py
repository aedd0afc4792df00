"""Keeps each block's result and sums, and adds all of them at the end.

Told: none
Fails: never the whole sequence
"""


def ring_attention(q, k, v, axis_name):
    size = lax.axis_size(axis_name)
    pairs = [(d, (d + 1) % size) for d in range(size)]
    tops, sums, results = [], [], []
    for step in range(size):
        scores = q @ k.T / q.shape[1] ** 0.5
        top = scores.max(axis=1, keepdims=True)
        powers = jnp.exp(scores - top)
        tops.append(top)
        sums.append(powers.sum(axis=1, keepdims=True))
        results.append(powers @ v)
        if step < size - 1:
            k, v = lax.ppermute((k, v), axis_name, pairs)
    tops, sums, results = map(jnp.stack, (tops, sums, results))
    share = jnp.exp(tops - tops.max(axis=0))
    return (share * results).sum(axis=0) / (share * sums).sum(axis=0)
