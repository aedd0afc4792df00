# %% wrong="all rows everywhere" fails="own rows, own units; one all-reduce per layer"
"""Splits the hidden units alone, and the rows at the end."""


def explicit_mlp(params, x):
    def layer(x, w):
        hidden = jax.nn.relu(x @ w["w1"])
        return jnp.matmul(hidden, w["w2"], out_sharding=P(None, None)), None

    y = jax.lax.scan(layer, reshard(x, P(None, None)), params)[0]
    return reshard(y, P("data", None))


# %% wrong="averages the parts" fails="same numbers; any layout of x"
# cause: the parts of a sum were averaged
"""Takes the mean of the parts, which are parts of a sum."""


def explicit_mlp(params, x):
    def local(w1, w2, x):
        for one, two in zip(w1, w2, strict=True):
            x = jax.lax.pmean(jax.nn.relu(x @ one) @ two, "model")
        return x

    specs = P(None, None, "model"), P(None, "model", None), P("data", None)
    run = jax.shard_map(local, in_specs=specs, out_specs=P("data", None))
    return run(params["w1"], params["w2"], reshard(x, P("data", None)))


# %% wrong="constrains as on auto axes" fails="any layout of x"
"""Constrains x, which does not move it on Explicit axes."""


def explicit_mlp(params, x):
    x = jax.lax.with_sharding_constraint(x, P("data", None))

    def layer(x, w):
        hidden = jax.nn.relu(x @ w["w1"])
        return jnp.matmul(hidden, w["w2"], out_sharding=P("data", None)), None

    return jax.lax.scan(layer, x, params)[0]


# %% wrong="gathers the hidden layer" fails="own rows, own units; one all-reduce per layer"
# cause: the hidden layer is gathered: the second product can take it as it is
"""Replicates the hidden layer and w2, so that no sum over devices is left."""


def explicit_mlp(params, x):
    rows = P("data", None)

    def layer(x, w):
        hidden = reshard(jax.nn.relu(x @ w["w1"]), rows)
        return hidden @ reshard(w["w2"], P()), None

    return jax.lax.scan(layer, reshard(x, rows), params)[0]


# %% wrong="leaves x in its layout" fails="own rows, own units; any layout of x"
"""Takes for granted that x comes by rows."""


def explicit_mlp(params, x):
    for w1, w2 in zip(params["w1"], params["w2"], strict=True):
        hidden = jax.nn.relu(x @ w1)
        x = jnp.matmul(hidden, w2, out_sharding=P("data", None))
    return x


# %% wrong="makes the weights whole" fails="own rows, own units; one all-reduce per layer"
# cause: a device computes all hidden units of its rows
"""Gathers the weights: each device computes all hidden units of its rows."""


def explicit_mlp(params, x):
    return mlp(reshard(params, P()), reshard(x, P("data", None)))


# %% wrong="no out sharding" fails="same numbers"
"""Leaves the sum over devices to JAX, which asks where it shall lie."""


def explicit_mlp(params, x):
    return mlp(params, reshard(x, P("data", None)))


# %% wrong="no sum" fails="same numbers; any layout of x; one all-reduce per layer"
"""Forgets the all-reduce in a shard_map: each device goes on with its part."""


def explicit_mlp(params, x):
    def local(w1, w2, x):
        for one, two in zip(w1, w2, strict=True):
            x = jax.nn.relu(x @ one) @ two
        return x

    specs = P(None, None, "model"), P(None, "model", None), P("data", None)
    run = jax.shard_map(
        local, in_specs=specs, out_specs=P("data", None), check_vma=False
    )
    return run(params["w1"], params["w2"], reshard(x, P("data", None)))


# %% wrong="pops params" fails="arguments stay"
"""Takes the weights out of its caller's dict."""


def explicit_mlp(params, x):
    w1, w2 = params.pop("w1"), params.pop("w2")

    def layer(x, w):
        hidden = jax.nn.relu(x @ w[0])
        return jnp.matmul(hidden, w[1], out_sharding=P("data", None)), None

    return jax.lax.scan(layer, reshard(x, P("data", None)), (w1, w2))[0]


# %% wrong="scatters and gathers" fails="same numbers; any layout of x; one all-reduce per layer"
"""Splits each layer's output by columns, and gathers it for the next one."""


def explicit_mlp(params, x):
    rows = P("data", None)

    def layer(x, w):
        hidden = jax.nn.relu(x @ w["w1"])
        split = jnp.matmul(hidden, w["w2"], out_sharding=P("data", "model"))
        return reshard(split, rows), None

    return jax.lax.scan(layer, reshard(x, rows), params)[0]


# %% wrong="two halves" fails="one all-reduce per layer"
"""Sums each half of the output's columns by an all-reduce of its own."""


def explicit_mlp(params, x):
    def layer(x, w):
        hidden = jax.nn.relu(x @ w["w1"])
        halves = [
            jnp.matmul(hidden, half, out_sharding=P("data", None))
            for half in jnp.array_split(w["w2"], 2, axis=1)
        ]
        return jnp.concatenate(halves, axis=1), None

    return jax.lax.scan(layer, reshard(x, P("data", None)), params)[0]


# %% wrong="two halves if wide" fails="one all-reduce per layer"
"""Sums each half of a wide output's columns by an all-reduce of its own."""


def explicit_mlp(params, x):
    def layer(x, w):
        hidden = jax.nn.relu(x @ w["w1"])
        halves = [
            jnp.matmul(hidden, half, out_sharding=P("data", None))
            for half in jnp.array_split(w["w2"], 1 + (x.shape[1] >= 64), axis=1)
        ]
        return jnp.concatenate(halves, axis=1), None

    return jax.lax.scan(layer, reshard(x, P("data", None)), params)[0]


# %% wrong="y sharded as x" fails="any layout of x; one all-reduce per layer"
# cause: the output is sharded as x was
"""Brings the result back into x's layout."""


def explicit_mlp(params, x):
    rows = P("data", None)

    def layer(x, w):
        hidden = jax.nn.relu(x @ w["w1"])
        return jnp.matmul(hidden, w["w2"], out_sharding=rows), None

    y = jax.lax.scan(layer, reshard(x, rows), params)[0]
    return reshard(y, jax.typeof(x).sharding.spec)


# %% right="via auto axes"
"""Lets the compiler decide inside, with constraints as on Auto axes."""


def explicit_mlp(params, x):
    fix = jax.lax.with_sharding_constraint

    @functools.partial(auto_axes, out_sharding=P("data", None))
    def run(params, x):
        def layer(x, w):
            hidden = fix(jax.nn.relu(x @ w["w1"]), P("data", "model"))
            return fix(hidden @ w["w2"], P("data", None)), None

        return jax.lax.scan(layer, x, params)[0]

    return run(params, reshard(x, P("data", None)))


# %% right="via condition"
"""Moves x only where it is sharded otherwise."""


def explicit_mlp(params, x):
    rows = P("data", None)
    x = x if jax.typeof(x).sharding.spec == rows else reshard(x, rows)
    n = params["w1"].shape[0]

    def body(i, x):
        hidden = jnp.maximum(x @ params["w1"][i], 0)
        return jnp.matmul(hidden, params["w2"][i], out_sharding=rows)

    return jax.lax.fori_loop(0, n, body, x)


# %% right="via dot general"
"""Contracts by lax.dot_general, and says in the loop's types how the sum is sharded."""


def explicit_mlp(params, x):
    contract = ((1,), (0,)), ((), ())
    rows = P("data", None)

    def layer(number, x):
        w1, w2 = params["w1"][number], params["w2"][number]
        hidden = jax.nn.relu(jax.lax.dot_general(x, w1, contract))
        return jax.lax.dot_general(hidden, w2, contract, out_sharding=rows)

    return jax.lax.fori_loop(0, len(params["w1"]), layer, jax.sharding.reshard(x, rows))


# %% right="via einsum"
"""Writes the layers by einsum, in a Python loop."""


def explicit_mlp(params, x):
    x = reshard(x, P("data"))
    for w1, w2 in zip(params["w1"], params["w2"], strict=True):
        hidden = jnp.maximum(jnp.einsum("bw,wh->bh", x, w1), 0)
        x = jnp.einsum("bh,hw->bw", hidden, w2, out_sharding=P("data"))
    return x


# %% right="via inner jit"
"""Compiles a layer of its own, and names the mesh that is set."""


@jax.jit
def one_layer(x, w1, w2):
    mesh = jax.sharding.get_abstract_mesh()
    out = jax.sharding.NamedSharding(mesh, P("data", None))
    return jnp.einsum("bh,hw->bw", jax.nn.relu(x @ w1), w2, out_sharding=out)


def explicit_mlp(params, x):
    x = reshard(x, P("data", None))
    for place in range(params["w1"].shape[0]):
        x = one_layer(x, params["w1"][place], params["w2"][place])
    return x


# %% right="via jax reshard"
"""Takes reshard from where newer JAX has it, too."""

move = getattr(jax, "reshard", jax.sharding.reshard)


def explicit_mlp(params, x):
    out = P("data")

    def layer(x, w):
        h = jnp.dot(x, w["w1"])
        h = jnp.where(h > 0, h, 0)
        return jnp.dot(h, w["w2"], out_sharding=out), None

    return jax.lax.scan(layer, move(x, out), params)[0]


# %% right="via out sharding of both"
"""Leaves x split along W to the first product, whose out_sharding moves it."""


def explicit_mlp(params, x):
    if jax.typeof(x).sharding.spec[0] != "data":
        x = reshard(x, P("data", None))
    for i in range(len(params["w1"])):
        h = jax.nn.relu(
            jnp.einsum("bw,wh->bh", x, params["w1"][i], out_sharding=P("data", "model"))
        )
        x = jnp.matmul(h, params["w2"][i], out_sharding=P("data", None))
    return x


# %% right="via shard map"
"""Writes the all-reduce by hand."""


def explicit_mlp(params, x):
    def local(w1, w2, x):
        def layer(x, w):
            return jax.lax.psum(jax.nn.relu(x @ w[0]) @ w[1], "model"), None

        return jax.lax.scan(layer, x, (w1, w2))[0]

    specs = P(None, None, "model"), P(None, "model", None), P("data", None)
    run = jax.shard_map(local, in_specs=specs, out_specs=P("data", None))
    return run(params["w1"], params["w2"], reshard(x, P("data", None)))


# %% right="via types"
"""Asks the weights' types where the hidden units lie, and reshards if there is need."""


def explicit_mlp(params, x):
    model = jax.typeof(params["w1"]).sharding.spec[2]
    [data] = [name for name in ("data", "model") if name != model]
    if jax.typeof(x).sharding.spec != P(data, None):
        x = reshard(x, P(data, None))

    def layer(x, w):
        first = jnp.matmul(x, w["w1"], out_sharding=P(data, model))
        return jnp.matmul(jax.nn.relu(first), w["w2"], out_sharding=P(data, None)), ()

    x, _ = jax.lax.scan(layer, x, params)
    return x


# %% right="via checkpoint"
"""A checkpointed layer whose type is asserted."""


def explicit_mlp(params, x):
    @jax.checkpoint
    def layer(h, w):
        hidden = jax.nn.relu(jnp.matmul(h, w["w1"]))
        spec = jax.typeof(hidden).sharding.spec
        assert tuple(spec) == ("data", "model"), spec
        return jnp.matmul(hidden, w["w2"], out_sharding=P("data", None)), None

    y, _ = jax.lax.scan(layer, reshard(x, P("data")), params)
    return y


# %% wrong="gathers x first" fails="one all-reduce per layer"
"""Gathers the rows that each device then takes its own of."""


def explicit_mlp(params, x):
    rows = P("data", None)

    def layer(x, w):
        hidden = jax.nn.relu(x @ w["w1"])
        return jnp.matmul(hidden, w["w2"], out_sharding=rows), None

    whole = jax.sharding.reshard(x, P(None, None))
    return jax.lax.scan(layer, jax.sharding.reshard(whole, rows), params)[0]
