"""Sets the mesh, and constrains parameters and moments to plain specs."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    mesh = make_mesh(mesh_shape, axis_names)
    spec = {name: P(*specs[name]) for name in ("w1", "w2")}
    place = jax.lax.with_sharding_constraint

    @jax.jit
    def init(key):
        state = make_state(key, num_layers, width)
        adam, *rest = state["adam"]
        adam = adam._replace(
            count=place(adam.count, P()),
            mu={name: place(adam.mu[name], spec[name]) for name in spec},
            nu={name: place(adam.nu[name], spec[name]) for name in spec},
        )
        params = {name: place(state["params"][name], spec[name]) for name in spec}
        return {"params": params, "adam": (adam, *rest)}

    with jax.set_mesh(mesh):
        return init(key)
