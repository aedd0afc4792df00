"""Splits the longer axis of a weight: that is W where H is smaller.

Told: none
Fails: weights by H and y by B
"""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))

    def fix(x, *spec):
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))

    def split(w):  # the many hidden units
        axis = max((1, 2), key=lambda k: w.shape[k])
        return fix(w, *("model" if k == axis else None for k in range(3)))

    params = jax.tree.map(split, params)

    def layer(x, w):
        hidden = fix(jax.nn.relu(x @ w["w1"]), "data", "model")
        return fix(hidden @ w["w2"], "data", None), None

    return params, jax.lax.scan(layer, fix(x, "data", None), params)[0]
