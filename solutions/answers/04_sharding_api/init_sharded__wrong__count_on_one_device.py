"""Makes Adam's count by itself, where nothing says that it belongs to the mesh.

Told: none
Fails: each leaf in its layout
"""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    state = jax.jit(init, out_shardings=shardings)(key)
    count = jnp.zeros((), jnp.int32)
    first, *rest = state["adam"]
    return state | {"adam": (first._replace(count=count), *rest)}
