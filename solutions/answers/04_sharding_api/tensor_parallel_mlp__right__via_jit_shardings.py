"""Hands all shardings to jit, and returns the parameters from it."""


def tensor_parallel_mlp(params, x, mesh_shape):
    on = functools.partial(NamedSharding, make_mesh(mesh_shape, ("data", "model")))
    weights = {"w1": on(P(None, None, "model")), "w2": on(P(None, "model"))}
    rows = on(P("data"))

    @functools.partial(jax.jit, out_shardings=(weights, rows))
    def check(params, x):
        x = jax.lax.with_sharding_constraint(x, rows)
        params = jax.lax.with_sharding_constraint(params, weights)
        return params, mlp(params, x)

    return check(params, x)
