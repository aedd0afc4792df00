"""Draws all weights on one device, as one long table; a second program splits them.

Told: none
Fails: never whole on a device
"""


@functools.partial(jax.jit, static_argnums=(1, 2))
def _numbers(key, rows, columns):
    return jax.random.normal(key, (rows, columns))


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def arrange(numbers):
        draw = numbers.reshape(2, num_layers, width, width) / width**0.5
        params = {"w1": draw[0], "w2": jnp.swapaxes(draw[1], 1, 2)}
        return {"params": params, "adam": make_adam().init(params)}

    mesh = make_mesh(mesh_shape, axis_names)
    shapes = jax.eval_shape(lambda: make_state(key, num_layers, width))
    shardings = state_shardings(mesh, shapes, specs)
    numbers = _numbers(key, 2 * num_layers * width, width)
    return jax.jit(arrange, out_shardings=shardings)(numbers)
