"""Compiles make_state itself, with static arguments."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    shapes = jax.eval_shape(lambda: make_state(jax.random.key(0), num_layers, width))
    shardings = state_shardings(make_mesh(mesh_shape, axis_names), shapes, specs)
    create = jax.jit(make_state, static_argnums=(1, 2), out_shardings=shardings)
    return create(key, num_layers, width)
