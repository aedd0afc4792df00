"""Returns the parameters as they came.

Told: none
"""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))
    specs = {"w1": P(None, None, "model"), "w2": P(None, "model", None)}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    placed = jax.tree.map(jax.device_put, params, shardings)
    rows = NamedSharding(mesh, P("data"))
    x = jax.device_put(x, rows)
    return params, jax.jit(mlp, out_shardings=rows)(placed, x)
