"""Makes the hidden layer whole in the middle of the block.

Told: the hidden layer is whole on a device
Fails: own rows of own hidden units; one all-reduce per layer
"""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))
    specs = {"w1": P(None, None, "model"), "w2": P(None, "model", None)}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    params = jax.lax.with_sharding_constraint(params, shardings)

    def on(x, *spec):
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))

    def block(x, w):
        hidden = on(jax.nn.relu(x @ w["w1"]), "data", None)
        return on(hidden @ w["w2"], "data", None), None

    return params, jax.lax.scan(block, on(x, "data", None), params)[0]
