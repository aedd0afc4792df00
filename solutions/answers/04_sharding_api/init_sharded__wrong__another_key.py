"""Splits the key once more: other numbers.

Told: none
Fails: the state of make_state
"""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    return jax.jit(init, out_shardings=shardings)(jax.random.split(key)[0])
