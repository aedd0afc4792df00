"""Splits the parameters; Adam's state comes out whole on one device.

Told: Adam's moments are whole on one device: out_shardings place them, too
Fails: each leaf in its layout; never whole on a device
"""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    params = jax.jit(
        lambda key: init(key)["params"], out_shardings=shardings["params"]
    )(key)
    return {"params": params, "adam": jax.jit(make_adam().init)(params)}
