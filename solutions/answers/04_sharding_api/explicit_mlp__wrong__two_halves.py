"""Sums each half of the output's columns by an all-reduce of its own.

Told: none
Fails: one all-reduce per layer
"""


def explicit_mlp(params, x):
    def layer(x, w):
        hidden = jax.nn.relu(x @ w["w1"])
        halves = [
            jnp.matmul(hidden, half, out_sharding=P("data", None))
            for half in jnp.array_split(w["w2"], 2, axis=1)
        ]
        return jnp.concatenate(halves, axis=1), None

    return jax.lax.scan(layer, reshard(x, P("data", None)), params)[0]
