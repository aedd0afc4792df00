"""Takes the devices from the last to the first.

Told: the mesh takes the first devices, in their order
Fails: each leaf in its layout
"""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    devices = np.array(jax.devices()[: math.prod(mesh_shape)])[::-1]
    mesh = jax.sharding.Mesh(devices.reshape(mesh_shape), axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    return jax.jit(init, out_shardings=shardings)(key)
