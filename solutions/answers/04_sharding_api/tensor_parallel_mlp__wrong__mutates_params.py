"""Puts the constrained weights into its caller's dict.

Told: none
Fails: arguments stay
"""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))

    def fix(a, *spec):
        return jax.lax.with_sharding_constraint(a, NamedSharding(mesh, P(*spec)))

    params["w1"] = fix(params["w1"], None, None, "model")
    params["w2"] = fix(params["w2"], None, "model", None)

    def layer(x, w):
        hidden = fix(jax.nn.relu(fix(x @ w["w1"], "data", "model")), "data", "model")
        return fix(hidden @ w["w2"], "data", None), None

    return params, jax.lax.scan(layer, fix(x, "data", None), params)[0]
