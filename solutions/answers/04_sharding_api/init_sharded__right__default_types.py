"""Makes the mesh with the default axis types, and shardings from the leaves' paths."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    mesh = jax.make_mesh(mesh_shape, axis_names)

    def make(key):
        return make_state(key, num_layers, width)

    def expect(path, leaf):
        for name, spec in specs.items():
            if jax.tree_util.keystr(path).endswith(f"['{name}']"):
                return NamedSharding(mesh, P(*spec))
        return NamedSharding(mesh, P())

    where = jax.tree_util.tree_map_with_path(expect, jax.eval_shape(make, key))
    return jax.jit(make, out_shardings=where)(key)
