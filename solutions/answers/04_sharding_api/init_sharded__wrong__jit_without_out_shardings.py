"""Compiles, but places only what is finished.

Told: none
Fails: never whole on a device
"""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    return jax.device_put(jax.jit(init)(key), shardings)
