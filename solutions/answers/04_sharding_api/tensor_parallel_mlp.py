# %% wrong="averages the parts" fails="same numbers"
# cause: the parts of a sum were averaged
"""Takes the mean of the parts, which are parts of a sum."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))
    specs = {"w1": P(None, None, "model"), "w2": P(None, "model", None)}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    params = jax.lax.with_sharding_constraint(params, shardings)

    def local(params, x):
        for w1, w2 in zip(params["w1"], params["w2"], strict=True):
            x = jax.lax.pmean(jax.nn.relu(x @ w1) @ w2, "model")
        return x

    split = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(specs, P("data")),
        out_specs=P("data"),
        check_vma=False,
    )
    return params, jax.jit(split)(params, x)


# %% wrong="batch stays whole" fails="own rows, own units; sharded weights and output; one all-reduce per layer"
# cause: replicated: inside jit a constraint shards, device_put does not
"""Splits the weights alone: every device computes all rows."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))
    specs = {"w1": P(None, None, "model"), "w2": P(None, "model", None)}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    params = jax.lax.with_sharding_constraint(params, shardings)
    return params, jax.jit(mlp)(params, x)


# %% wrong="computed on one device" fails="own rows, own units"
"""Computes on one device, and splits what comes out."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))
    specs = {"w1": P(None, None, "model"), "w2": P(None, "model", None)}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    y = jax.jit(mlp)(params, x)
    params = jax.lax.with_sharding_constraint(params, shardings)
    return params, jax.lax.with_sharding_constraint(y, NamedSharding(mesh, P("data")))


# %% wrong="gathers the hidden layer" fails="own rows, own units; one all-reduce per layer"
# cause: the hidden layer is gathered: the second product can take it as it is
"""Replicates the hidden layer in the middle of the block."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))
    specs = {"w1": P(None, None, "model"), "w2": P(None, "model", None)}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    params = jax.lax.with_sharding_constraint(params, shardings)

    def on(x, *spec):
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))

    def block(x, w):
        hidden = on(jax.nn.relu(x @ w["w1"]), "data", None)
        return on(hidden @ w["w2"], "data", None), None

    return params, jax.lax.scan(block, on(x, "data", None), params)[0]


# %% wrong="last devices" fails="sharded weights and output"
"""Takes the last devices."""


def tensor_parallel_mlp(params, x, mesh_shape):
    devices = np.array(jax.devices()[-math.prod(mesh_shape) :]).reshape(mesh_shape)
    mesh = jax.sharding.Mesh(devices, ("data", "model"))
    specs = {"w1": P(None, None, "model"), "w2": P(None, "model", None)}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    params = jax.lax.with_sharding_constraint(params, shardings)
    rows = NamedSharding(mesh, P("data"))
    x = jax.lax.with_sharding_constraint(x, rows)
    return params, jax.jit(mlp, out_shardings=rows)(params, x)


# %% wrong="mutates params" fails="arguments stay"
"""Puts the constrained weights into its caller's dict."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))

    def fix(a, *spec):
        return jax.lax.with_sharding_constraint(a, NamedSharding(mesh, P(*spec)))

    params["w1"] = fix(params["w1"], None, None, "model")
    params["w2"] = fix(params["w2"], None, "model", None)

    def layer(x, w):
        hidden = fix(jax.nn.relu(fix(x @ w["w1"], "data", "model")), "data", "model")
        return fix(hidden @ w["w2"], "data", None), None

    return params, jax.lax.scan(layer, fix(x, "data", None), params)[0]


# %% wrong="no sum" fails="same numbers; one all-reduce per layer"
"""Forgets the all-reduce: each device goes on with its part, right on one device."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))
    specs = {"w1": P(None, None, "model"), "w2": P(None, "model", None)}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    params = jax.lax.with_sharding_constraint(params, shardings)

    def local(params, x):
        for w1, w2 in zip(params["w1"], params["w2"], strict=True):
            x = jax.nn.relu(x @ w1) @ w2
        return x

    split = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(specs, P("data")),
        out_specs=P("data"),
        check_vma=False,
    )
    return params, jax.jit(split)(params, x)


# %% wrong="places by device put" fails="sharded weights and output"
# cause: replicated: inside jit a constraint shards, device_put does not
"""Places by device_put, which splits nothing inside jit."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))

    def on(array, *spec):
        return jax.device_put(array, NamedSharding(mesh, P(*spec)))

    def layer(x, w):
        return on(on(jax.nn.relu(x @ w["w1"]), "data", "model") @ w["w2"], "data"), None

    specs = {"w1": (None, None, "model"), "w2": (None, "model", None)}
    params = {name: on(params[name], *spec) for name, spec in specs.items()}
    return params, jax.lax.scan(layer, on(x, "data"), params)[0]


# %% wrong="returns the weights as they came" fails="sharded weights and output"
# cause: replicated: inside jit a constraint shards, device_put does not
"""Splits the weights for its own use, and returns the parameters as they came."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))
    whole, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))

    def local(params, x):
        for w1, w2 in zip(params["w1"], params["w2"], strict=True):
            x = jax.lax.psum(jax.nn.relu(x @ w1) @ w2, "model")
        return x

    specs = {"w1": P(None, None, "model"), "w2": P(None, "model", None)}
    split = jax.shard_map(
        local, mesh=mesh, in_specs=(specs, P("data")), out_specs=P("data")
    )
    y = jax.lax.with_sharding_constraint(split(params, x), rows)
    return jax.lax.with_sharding_constraint(params, whole), y


# %% wrong="rows then columns" fails="own rows, own units; sharded weights and output; one all-reduce per layer"
# cause: this shards W, not H
"""Splits w1 by rows and w2 by columns: a sum in the middle of each block."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))
    specs = {"w1": P(None, "model", None), "w2": P(None, None, "model")}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    params = jax.lax.with_sharding_constraint(params, shardings)

    def on(x, *spec):
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))

    def block(x, w):
        return on(jax.nn.relu(x @ w["w1"]) @ w["w2"], "data", None), None

    return params, jax.lax.scan(block, on(x, "data", None), params)[0]


# %% wrong="splits longer axis" fails="sharded weights and output"
"""Splits the longer axis of a weight: that is W where H is smaller."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))

    def fix(x, *spec):
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))

    def split(w):  # the many hidden units
        axis = max((1, 2), key=lambda k: w.shape[k])
        return fix(w, *("model" if k == axis else None for k in range(3)))

    params = jax.tree.map(split, params)

    def layer(x, w):
        hidden = fix(jax.nn.relu(x @ w["w1"]), "data", "model")
        return fix(hidden @ w["w2"], "data", None), None

    return params, jax.lax.scan(layer, fix(x, "data", None), params)[0]


# %% wrong="splits when all is computed" fails="own rows, own units; one all-reduce per layer"
"""Computes as the arguments lie, and splits what is returned."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))

    @functools.partial(
        jax.jit,
        out_shardings=(
            {
                "w1": NamedSharding(mesh, P(None, None, "model")),
                "w2": NamedSharding(mesh, P(None, "model", None)),
            },
            NamedSharding(mesh, P("data")),
        ),
    )
    def run(params, x):
        whole = NamedSharding(mesh, P())
        y = mlp(params, jax.lax.with_sharding_constraint(x, whole))
        return params, jax.lax.with_sharding_constraint(y, whole)

    return run(params, x)


# %% wrong="sums twice" fails="one all-reduce per layer"
"""Sums over the model axis once more, and divides by its size."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))
    specs = {"w1": P(None, None, "model"), "w2": P(None, "model", None)}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    params = jax.lax.with_sharding_constraint(params, shardings)

    def local(params, x):
        for w1, w2 in zip(params["w1"], params["w2"], strict=True):
            x = jax.lax.psum(jax.nn.relu(x @ w1) @ w2, "model")
        return jax.lax.pmean(x, "model")

    split = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(specs, P("data")),
        out_specs=P("data"),
        check_vma=False,
    )
    return params, jax.jit(split)(params, x)


# %% wrong="three layers" fails="same numbers"
"""Writes three layers, as the check's model has."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))
    specs = {"w1": P(None, None, "model"), "w2": P(None, "model", None)}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    params = jax.lax.with_sharding_constraint(params, shardings)

    def on(x, *spec):
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))

    x = on(x, "data", None)
    for layer in range(3):
        hidden = on(jax.nn.relu(x @ params["w1"][layer]), "data", "model")
        x = on(hidden @ params["w2"][layer], "data", None)
    return params, x


# %% wrong="two halves" fails="one all-reduce per layer"
"""Sums each half of the output's columns by an all-reduce of its own."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))

    def fix(a, *spec):
        return jax.lax.with_sharding_constraint(a, NamedSharding(mesh, P(*spec)))

    params = {
        "w1": fix(params["w1"], None, None, "model"),
        "w2": fix(params["w2"], None, "model", None),
    }

    def layer(x, w):
        hidden = fix(jax.nn.relu(fix(x @ w["w1"], "data", "model")), "data", "model")
        halves = jnp.array_split(w["w2"], 2, axis=1)
        halves = [fix(hidden @ half, "data", None) for half in halves]
        return fix(jnp.concatenate(halves, axis=1), "data", None), None

    return params, jax.lax.scan(layer, fix(x, "data", None), params)[0]


# %% wrong="two halves if wide" fails="one all-reduce per layer"
"""Sums each half of a wide output's columns by an all-reduce of its own."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))

    def fix(a, *spec):
        return jax.lax.with_sharding_constraint(a, NamedSharding(mesh, P(*spec)))

    params = {
        "w1": fix(params["w1"], None, None, "model"),
        "w2": fix(params["w2"], None, "model", None),
    }

    def layer(x, w):
        hidden = fix(jax.nn.relu(fix(x @ w["w1"], "data", "model")), "data", "model")
        halves = jnp.array_split(w["w2"], 1 + (x.shape[1] >= 64), axis=1)
        halves = [fix(hidden @ half, "data", None) for half in halves]
        return fix(jnp.concatenate(halves, axis=1), "data", None), None

    return params, jax.lax.scan(layer, fix(x, "data", None), params)[0]


# %% right="via einsum"
"""Writes the layers by einsum, in a plain loop."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))

    def put(array, *spec):
        return jax.lax.with_sharding_constraint(array, NamedSharding(mesh, P(*spec)))

    new = dict(
        w1=put(params["w1"], None, None, "model"), w2=put(params["w2"], None, "model")
    )
    y = put(x, "data", None)
    for i in range(new["w1"].shape[0]):
        hidden = jax.nn.relu(jnp.einsum("bw,wh->bh", y, new["w1"][i]))
        hidden = put(hidden, "data", "model")
        y = put(jnp.einsum("bh,hw->bw", hidden, new["w2"][i]), "data", None)
    return new, y


# %% right="via jit shardings"
"""Hands all shardings to jit, and returns the parameters from it."""


def tensor_parallel_mlp(params, x, mesh_shape):
    on = functools.partial(NamedSharding, make_mesh(mesh_shape, ("data", "model")))
    weights = {"w1": on(P(None, None, "model")), "w2": on(P(None, "model"))}
    rows = on(P("data"))

    @functools.partial(jax.jit, out_shardings=(weights, rows))
    def check(params, x):
        x = jax.lax.with_sharding_constraint(x, rows)
        params = jax.lax.with_sharding_constraint(params, weights)
        return params, mlp(params, x)

    return check(params, x)


# %% right="via placed batch"
"""Places the batch, and lets the compiler find the rest."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))
    specs = {"w1": P(None, None, "model"), "w2": P(None, "model", None)}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    params = jax.lax.with_sharding_constraint(params, shardings)
    x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("data")))
    y = jax.jit(mlp, out_shardings=NamedSharding(mesh, P("data")))(params, x)
    return params, y


# %% right="via python loop"
"""Unrolls the layers, inside one jit."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))
    specs = {"w1": P(None, None, "model"), "w2": P(None, "model", None)}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    params = jax.lax.with_sharding_constraint(params, shardings)

    def on(x, *spec):
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))

    def forward(params, x):
        x = on(x, "data")
        for w1, w2 in zip(params["w1"], params["w2"], strict=True):
            x = on(on(jax.nn.relu(x @ w1), "data", "model") @ w2, "data")
        return x

    return params, jax.jit(forward)(params, x)


# %% right="via shard map"
"""Writes the all-reduce by hand."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))
    specs = {"w1": P(None, None, "model"), "w2": P(None, "model", None)}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    params = jax.lax.with_sharding_constraint(params, shardings)

    def local(params, x):
        for w1, w2 in zip(params["w1"], params["w2"], strict=True):
            x = jax.lax.psum(jax.nn.relu(x @ w1) @ w2, "model")
        return x

    split = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(specs, P("data")),
        out_specs=P("data"),
        check_vma=False,
    )
    return params, jax.jit(split)(params, x)


# %% right="via shard map of both"
"""Lets the weights come out of a shard_map, too."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))
    ps = {"w1": P(None, None, "model"), "w2": P(None, "model")}
    f = jax.shard_map(
        lambda p, x: (
            p,
            jax.lax.scan(
                lambda x, w: (
                    jax.lax.psum(jax.nn.relu(x @ w["w1"]) @ w["w2"], "model"),
                    None,
                ),
                x,
                p,
            )[0],
        ),
        mesh=mesh,
        in_specs=(ps, P("data")),
        out_specs=(ps, P("data")),
    )
    return f(params, x)


# %% right="via shard map of one layer"
"""A shard_map per layer, with an explicit psum."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))

    @functools.partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P("data", None), P(None, "model"), P("model", None)),
        out_specs=P("data", None),
    )
    def layer(h, w1, w2):
        return jax.lax.psum(jnp.maximum(h @ w1, 0) @ w2, "model")

    specs = {"w1": P(None, None, "model"), "w2": P(None, "model", None)}
    params = {
        k: jax.lax.with_sharding_constraint(v, NamedSharding(mesh, specs[k]))
        for k, v in params.items()
    }
    for w1, w2 in zip(params["w1"], params["w2"], strict=True):
        x = layer(x, w1, w2)
    return params, x


# %% wrong="gathers each layer's input" fails="one all-reduce per layer"
"""Gathers the rows that each device then takes its own of."""


def tensor_parallel_mlp(params, x, mesh_shape):
    mesh = make_mesh(mesh_shape, ("data", "model"))

    def on(x, *spec):
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))

    specs = {"w1": (None, None, "model"), "w2": (None, "model", None)}

    def layer(x, w):
        x = on(on(x, None, None), "data", None)
        hidden = on(jax.nn.relu(x @ w["w1"]), "data", "model")
        return on(hidden @ w["w2"], "data", None), None

    params = {name: on(params[name], *spec) for name, spec in specs.items()}
    return params, jax.lax.scan(layer, on(x, "data", None), params)[0]
