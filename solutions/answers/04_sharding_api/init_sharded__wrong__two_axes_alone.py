"""Makes a mesh of the first and the last axis, as the example has.

Told: none
Fails: the state of make_state; nothing is remembered
"""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    first, second = mesh_shape[0], mesh_shape[-1]
    mesh = make_mesh((first, second), (axis_names[0], axis_names[-1]))
    init = functools.partial(make_state, num_layers=num_layers, width=width)
    sh = state_shardings(mesh, jax.eval_shape(init, key), specs)
    return jax.jit(init, out_shardings=sh)(key)
