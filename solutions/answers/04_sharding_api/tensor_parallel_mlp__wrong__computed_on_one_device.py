"""Computes on one device, and splits what comes out.

Told: none
Fails: own rows of own hidden units
"""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))
    specs = {"w1": P(None, None, "model"), "w2": P(None, "model", None)}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    y = jax.jit(mlp)(params, x)
    params = jax.lax.with_sharding_constraint(params, shardings)
    return params, jax.lax.with_sharding_constraint(y, NamedSharding(mesh, P("data")))
