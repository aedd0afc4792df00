"""Uses the mesh's abstract twin, which may be set inside of jit, and plain specs."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))
    fix = jax.lax.with_sharding_constraint

    def layer(i, x):
        hidden = jnp.maximum(jnp.matmul(x, weights["w1"][i]), 0)
        return fix(fix(hidden, P("data", "model")) @ weights["w2"][i], P("data", None))

    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        weights = {
            "w1": fix(params["w1"], NamedSharding(mesh, P(None, None, "model"))),
            "w2": fix(params["w2"], NamedSharding(mesh, P(None, "model", None))),
        }
        x = fix(x, NamedSharding(mesh, P("data")))
        return weights, jax.lax.fori_loop(0, len(params["w1"]), layer, x)
