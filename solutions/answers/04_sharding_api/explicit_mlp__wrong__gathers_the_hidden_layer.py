"""Makes the hidden layer and w2 whole, so that no sum over devices is left.

Told: the hidden layer is whole on a device
Fails: own rows of own hidden units; one all-reduce per layer
"""


def explicit_mlp(params, x):
    rows = P("data", None)

    def layer(x, w):
        hidden = reshard(jax.nn.relu(x @ w["w1"]), rows)
        return hidden @ reshard(w["w2"], P()), None

    return jax.lax.scan(layer, reshard(x, rows), params)[0]
