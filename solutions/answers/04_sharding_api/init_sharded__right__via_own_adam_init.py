"""Draws the parameters in one jit, and lets a second one begin Adam."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    mesh = make_mesh(mesh_shape, axis_names)
    on = {name: NamedSharding(mesh, P(*spec)) for name, spec in specs.items()}

    @functools.partial(jax.jit, out_shardings=on)
    def draw(key):
        return make_state(key, num_layers, width)["params"]

    @jax.jit
    def begin(params):
        adam = make_adam().init(params)
        moments = [
            jax.tree.map(jax.lax.with_sharding_constraint, tree, on)
            for tree in (adam[0].mu, adam[0].nu)
        ]
        count = jax.lax.with_sharding_constraint(
            adam[0].count, NamedSharding(mesh, P())
        )
        return (optax.ScaleByAdamState(count, *moments), *adam[1:])

    params = draw(key)
    return {"params": params, "adam": begin(params)}
