"""Keeps each block's result beside the others, as what a scan stacks, and adds at last.

Told: none
Fails: never the whole sequence
"""


def ring_attention(q, k, v, axis_name):
    size = lax.axis_size(axis_name)
    ring = [(d, (d + 1) % size) for d in range(size)]

    def look(k, v):
        scores = q @ k.T / q.shape[1] ** 0.5
        top = scores.max(1, keepdims=True)
        powers = jnp.exp(scores - top)
        return top, powers.sum(1, keepdims=True), powers @ v

    def step(blocks, _):
        blocks = lax.ppermute(blocks, axis_name, ring)
        return blocks, look(*blocks)

    tops, totals, results = lax.scan(step, (k, v), None, length=size - 1)[1]
    top, total, result = look(k, v)
    most = jnp.maximum(top, tops.max(0, initial=-jnp.inf))
    own, others = jnp.exp(top - most), jnp.exp(tops - most)
    total = own * total + (others * totals).sum(0)
    return (own * result + (others * results).sum(0)) / total
