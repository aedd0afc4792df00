"""Makes the shardings by the names in each leaf's path."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    grid = np.array(jax.devices()[: math.prod(mesh_shape)]).reshape(mesh_shape)
    mesh = jax.sharding.Mesh(grid, axis_names)

    def check(path, leaf):
        name = str(path[-1]).strip("[]'")
        return NamedSharding(mesh, P(*specs.get(name, ())))

    create = functools.partial(make_state, num_layers=num_layers, width=width)
    shapes = jax.eval_shape(create, key)
    shardings = jax.tree_util.tree_map_with_path(check, shapes)
    return jax.jit(create, out_shardings=shardings)(key)
