"""Takes for granted that x comes by rows.

Told: none
Fails: own rows of own hidden units; x may lie in any way
"""


def explicit_mlp(params, x):
    for w1, w2 in zip(params["w1"], params["w2"], strict=True):
        hidden = jax.nn.relu(x @ w1)
        x = jnp.matmul(hidden, w2, out_sharding=P("data", None))
    return x
