"""Makes Adam's state outside of jit: its moments lie well, its count on one device.

Told: none
Fails: each leaf in its layout; never whole on a device
"""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)["params"]
    params = jax.jit(lambda key: init(key)["params"], out_shardings=shardings)(key)
    return {"params": params, "adam": make_adam().init(params)}
