"""Computes as the arguments lie, and splits what is returned.

Told: none
Fails: own rows of own hidden units; one all-reduce per layer
"""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))

    @functools.partial(
        jax.jit,
        out_shardings=(
            {
                "w1": NamedSharding(mesh, P(None, None, "model")),
                "w2": NamedSharding(mesh, P(None, "model", None)),
            },
            NamedSharding(mesh, P("data")),
        ),
    )
    def run(params, x):
        whole = NamedSharding(mesh, P())
        y = mlp(params, jax.lax.with_sharding_constraint(x, whole))
        return params, jax.lax.with_sharding_constraint(y, whole)

    return run(params, x)
