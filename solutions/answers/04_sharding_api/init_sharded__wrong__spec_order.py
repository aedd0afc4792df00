"""Takes the specs by their order in the dict, not by name.

Told: none
Fails: each leaf in its layout
"""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    mesh = make_mesh(mesh_shape, axis_names)
    first, second = specs.values()
    shapes = jax.eval_shape(lambda: make_state(key, num_layers, width))
    shardings = state_shardings(mesh, shapes, {"w1": first, "w2": second})
    init = jax.jit(
        lambda key: make_state(key, num_layers, width), out_shardings=shardings
    )
    return init(key)
