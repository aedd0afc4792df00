"""Sets the mesh, and constrains to plain specs."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))

    def layer(x, w1, w2):
        hidden = jnp.maximum(jnp.matmul(x, w1), 0)
        hidden = jax.lax.with_sharding_constraint(hidden, P("data", "model"))
        return jax.lax.with_sharding_constraint(hidden @ w2, P("data", None))

    @jax.jit
    def forward(w1, w2, x):
        x = jax.lax.with_sharding_constraint(x, P("data"))
        return jax.lax.fori_loop(0, len(w1), lambda i, x: layer(x, w1[i], w2[i]), x)

    placed = {
        "w1": jax.device_put(params["w1"], NamedSharding(mesh, P(None, None, "model"))),
        "w2": jax.device_put(params["w2"], NamedSharding(mesh, P(None, "model", None))),
    }
    with jax.set_mesh(mesh):
        return placed, forward(placed["w1"], placed["w2"], x)
