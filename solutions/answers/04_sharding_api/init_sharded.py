# %% wrong="adam outside of jit" fails="sharded as asked; never a full copy"
# cause: Adam's count is on one device: out_shardings place it, too
"""Makes Adam's state outside of jit: its moments are sharded, its count is on one device."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)["params"]
    params = jax.jit(lambda key: init(key)["params"], out_shardings=shardings)(key)
    return {"params": params, "adam": make_adam().init(params)}


# %% wrong="another key" fails="same numbers"
"""Splits the key once more: other numbers."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    return jax.jit(init, out_shardings=shardings)(jax.random.split(key)[0])


# %% wrong="cache without specs" fails="sharded as asked"
"""Breaks "computes from its own arguments": the compiled function is kept, but specs
(no dict is hashable) and names are not part of the cache's key.
"""

_programs = {}


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    which = num_layers, width, mesh_shape
    if which not in _programs:
        init = functools.partial(make_state, num_layers=num_layers, width=width)
        shapes = jax.eval_shape(init, key)
        shardings = state_shardings(make_mesh(mesh_shape, axis_names), shapes, specs)
        _programs[which] = jax.jit(init, out_shardings=shardings)
    return _programs[which](key)


# %% wrong="count on one device" fails="sharded as asked"
# cause: Adam's count is on one device: out_shardings place it, too
"""Makes Adam's count by itself, where nothing says that it belongs to the mesh."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    state = jax.jit(init, out_shardings=shardings)(key)
    count = jnp.zeros((), jnp.int32)
    first, *rest = state["adam"]
    return state | {"adam": (first._replace(count=count), *rest)}


# %% wrong="draws flat first" fails="never a full copy"
"""Draws all weights on one device, as one long table; a second program splits them."""


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


# %% wrong="every device holds all" fails="sharded as asked; never a full copy"
# cause: replicated on every device
"""Replicates the state over the mesh."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    return jax.jit(init, out_shardings=NamedSharding(mesh, P()))(key)


# %% wrong="fixed specs" fails="sharded as asked"
"""Splits as tensor parallel does, whatever specs says."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    specs = {"w1": (None, None, "model"), "w2": (None, "model", None)}
    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    return jax.jit(init, out_shardings=shardings)(key)


# %% wrong="flat draw in shard map" fails="never a full copy"
"""Each device draws all numbers and cuts its block out."""


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


# %% wrong="forgets adam" fails="sharded as asked; never a full copy"
# cause: Adam's moments are on one device: out_shardings place them, too
"""Shards the parameters; Adam's state ends up in full on one device."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    params = jax.jit(
        lambda key: init(key)["params"], out_shardings=shardings["params"]
    )(key)
    return {"params": params, "adam": jax.jit(make_adam().init)(params)}


# %% wrong="jit without out shardings" fails="never a full copy"
"""Compiles, but places only what is finished."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    return jax.device_put(jax.jit(init)(key), shardings)


# %% wrong="moments are replicated" fails="sharded as asked; never a full copy"
# cause: replicated on every device
"""Shards the parameters; Adam's moments are replicated."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    whole = {"w1": (), "w2": ()}
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs, whole)
    return jax.jit(init, out_shardings=shardings)(key)


# %% wrong="moments of the other weight" fails="sharded as asked"
"""Splits the moments of w1 as w2, and those of w2 as w1."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    other = {"w1": specs["w2"], "w2": specs["w1"]}
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs, other)
    return jax.jit(init, out_shardings=shardings)(key)


# %% wrong="places a finished state" fails="never a full copy"
"""Makes the whole state on one device and distributes it: right where one device has
room.
"""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    return jax.device_put(init(key), shardings)


# %% wrong="remembers the first key" fails="same numbers; nothing is remembered"
"""Keeps the state for sizes and specs, whatever the key is."""

states = {}


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    known = num_layers, width, mesh_shape, str(specs)
    if known not in states:
        states[known] = key
    return jax.jit(init, out_shardings=shardings)(states[known])


# %% wrong="reversed devices" fails="sharded as asked"
# cause: the mesh takes the first devices, in their order
"""Takes the devices from the last to the first."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    devices = np.array(jax.devices()[: math.prod(mesh_shape)])[::-1]
    mesh = jax.sharding.Mesh(devices.reshape(mesh_shape), axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    return jax.jit(init, out_shardings=shardings)(key)


# %% wrong="seed from key" fails="same numbers"
"""Makes a key of the last word of the key: right for keys that were not split."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    seed = jax.random.key_data(key)[-1]
    mesh = make_mesh(tuple(mesh_shape), tuple(axis_names))

    def init(seed):
        return make_state(jax.random.key(seed), num_layers, width)

    shardings = state_shardings(mesh, jax.eval_shape(init, seed), specs)
    return jax.jit(init, out_shardings=shardings)(seed)


# %% wrong="spec order" fails="sharded as asked"
"""Takes the specs by their order in the dict, not by name."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    mesh = make_mesh(mesh_shape, axis_names)
    first, second = specs.values()
    shapes = jax.eval_shape(lambda: make_state(key, num_layers, width))
    shardings = state_shardings(mesh, shapes, {"w1": first, "w2": second})
    init = jax.jit(
        lambda key: make_state(key, num_layers, width), out_shardings=shardings
    )
    return init(key)


# %% wrong="split layers from whole" fails="never a full copy"
"""Replicates the state before it places it, where specs shard the layers' axis."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    mesh = make_mesh(mesh_shape, axis_names)

    def init(key):
        return make_state(key, num_layers, width)

    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    if any(spec and spec[0] is not None for spec in specs.values()):
        return jax.device_put(jax.jit(init)(key), shardings)
    return jax.jit(init, out_shardings=shardings)(key)


# %% wrong="splits by a second jit" fails="never a full copy"
"""Makes the state in a jit of its own, and splits it in the next one."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    return jax.jit(lambda state: state, out_shardings=shardings)(jax.jit(init)(key))


# %% wrong="two axes alone" fails="same numbers"
"""Makes a mesh of the first and the last axis, as the example has."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    first, second = mesh_shape[0], mesh_shape[-1]
    mesh = make_mesh((first, second), (axis_names[0], axis_names[-1]))
    init = functools.partial(make_state, num_layers=num_layers, width=width)
    sh = state_shardings(mesh, jax.eval_shape(init, key), specs)
    return jax.jit(init, out_shardings=sh)(key)


# %% wrong="makes the state under the name shard_map" fails="never a full copy"
"""Makes the whole state in a jit that is only called shard_map, and places it then."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    @jax.jit
    def build(key):
        @jax.jit
        def shard_map_x(key):
            return make_state(key, num_layers, width)

        return shard_map_x(key)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(build, key), specs)
    return jax.device_put(build(key), shardings)


# %% right="default types"
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


# %% right="via constraints"
"""Constrains the state inside jit."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    return jax.jit(lambda key: jax.lax.with_sharding_constraint(init(key), shardings))(
        key
    )


# %% right="via own adam init"
"""Draws the parameters in one jit, and lets a second one begin Adam."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    mesh = make_mesh(mesh_shape, axis_names)
    on = {name: NamedSharding(mesh, P(*spec)) for name, spec in specs.items()}

    @functools.partial(jax.jit, out_shardings=on)
    def draw(key):
        return make_state(key, num_layers, width)["params"]

    @jax.jit
    def begin(params):
        adam = make_adam().init(params)
        moments = [
            jax.tree.map(jax.lax.with_sharding_constraint, tree, on)
            for tree in (adam[0].mu, adam[0].nu)
        ]
        count = jax.lax.with_sharding_constraint(
            adam[0].count, NamedSharding(mesh, P())
        )
        return (optax.ScaleByAdamState(count, *moments), *adam[1:])

    params = draw(key)
    return {"params": params, "adam": begin(params)}


# %% right="via paths"
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


# %% right="via set mesh"
"""Sets the mesh, and constrains parameters and moments to plain specs."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    mesh = make_mesh(mesh_shape, axis_names)
    spec = {name: P(*specs[name]) for name in ("w1", "w2")}
    place = jax.lax.with_sharding_constraint

    @jax.jit
    def init(key):
        state = make_state(key, num_layers, width)
        adam, *rest = state["adam"]
        adam = adam._replace(
            count=place(adam.count, P()),
            mu={name: place(adam.mu[name], spec[name]) for name in spec},
            nu={name: place(adam.nu[name], spec[name]) for name in spec},
        )
        params = {name: place(state["params"][name], spec[name]) for name in spec}
        return {"params": params, "adam": (adam, *rest)}

    with jax.set_mesh(mesh):
        return init(key)


# %% right="via static arguments"
"""Compiles make_state itself, with static arguments."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    shapes = jax.eval_shape(lambda: make_state(jax.random.key(0), num_layers, width))
    shardings = state_shardings(make_mesh(mesh_shape, axis_names), shapes, specs)
    create = jax.jit(make_state, static_argnums=(1, 2), out_shardings=shardings)
    return create(key, num_layers, width)


# %% right="via two jits"
"""First the parameters, then Adam's state, both in place."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    params = jax.jit(
        lambda key: init(key)["params"], out_shardings=shardings["params"]
    )(key)
    adam = jax.jit(make_adam().init, out_shardings=shardings["adam"])(params)
    return {"params": params, "adam": adam}


# %% wrong="adam outside of jit, with its count" fails="never a full copy"
"""Makes Adam's state outside of jit, where it follows the parameters."""


def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    mesh = make_mesh(mesh_shape, axis_names)

    def init(key):
        return make_state(key, num_layers, width)["params"]

    on = {n: NamedSharding(mesh, P(*s)) for n, s in specs.items()}
    params = jax.jit(init, out_shardings=on)(key)
    adam = make_adam().init(params)
    count = jax.device_put(adam[0].count, NamedSharding(mesh, P()))
    return {"params": params, "adam": (adam[0]._replace(count=count), *adam[1:])}
