"""First the parameters, then Adam's state, both in place."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    params = jax.jit(
        lambda key: init(key)["params"], out_shardings=shardings["params"]
    )(key)
    adam = jax.jit(make_adam().init, out_shardings=shardings["adam"])(params)
    return {"params": params, "adam": adam}
