"""Sums each half of the output's columns by an all-reduce of its own.

Told: none
Fails: one all-reduce per layer
"""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))

    def fix(a, *spec):
        return jax.lax.with_sharding_constraint(a, NamedSharding(mesh, P(*spec)))

    params = {
        "w1": fix(params["w1"], None, None, "model"),
        "w2": fix(params["w2"], None, "model", None),
    }

    def layer(x, w):
        hidden = fix(jax.nn.relu(fix(x @ w["w1"], "data", "model")), "data", "model")
        halves = jnp.array_split(w["w2"], 2, axis=1)
        halves = [fix(hidden @ half, "data", None) for half in halves]
        return fix(jnp.concatenate(halves, axis=1), "data", None), None

    return params, jax.lax.scan(layer, fix(x, "data", None), params)[0]
