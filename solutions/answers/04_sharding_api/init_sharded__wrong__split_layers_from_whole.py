"""Makes the state whole before it places it, where specs split the layers' axis.

Told: none
Fails: never whole on a device
"""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    mesh = make_mesh(mesh_shape, axis_names)

    def init(key):
        return make_state(key, num_layers, width)

    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    if any(spec and spec[0] is not None for spec in specs.values()):
        return jax.device_put(jax.jit(init)(key), shardings)
    return jax.jit(init, out_shardings=shardings)(key)
