"""Each device draws all numbers and cuts its block out.

Told: none
Fails: never whole on a device
"""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    mesh = make_mesh(mesh_shape, axis_names)
    shapes = jax.eval_shape(lambda: make_state(key, num_layers, width))
    shardings = state_shardings(mesh, shapes, specs)

    def blocks(key):
        draw = jax.random.normal(key, (2 * num_layers * width, width)) / width**0.5
        place = dict(
            zip(mesh.axis_names, map(jax.lax.axis_index, mesh.axis_names), strict=True)
        )

        def index(axis, spec):
            entry = spec[axis] if axis < len(spec) else None
            names = (
                () if entry is None else entry if isinstance(entry, tuple) else (entry,)
            )
            where, parts = 0, 1
            for name in names:
                where, parts = (
                    where * mesh.shape[name] + place[name],
                    parts * mesh.shape[name],
                )
            size = (num_layers, width, width)[axis] // parts
            return where * size + jnp.arange(size)

        layer, row, column = (index(axis, specs["w1"]) for axis in range(3))
        flat = (layer[:, None] * width + row).reshape(-1)
        w1 = draw[flat][:, column].reshape(len(layer), len(row), len(column))
        layer, row, column = (index(axis, specs["w2"]) for axis in range(3))
        flat = (num_layers + layer[:, None]) * width + column
        w2 = draw[flat.reshape(-1)][:, row].reshape(len(layer), len(column), len(row))
        return {"w1": w1, "w2": jnp.swapaxes(w2, 1, 2)}

    out = {name: P(*specs[name]) for name in ("w1", "w2")}
    draw = jax.shard_map(
        blocks, mesh=mesh, in_specs=P(), out_specs=out, check_vma=False
    )

    def init(key):
        params = draw(key)
        return {"params": params, "adam": make_adam().init(params)}

    return jax.jit(init, out_shardings=shardings)(key)
