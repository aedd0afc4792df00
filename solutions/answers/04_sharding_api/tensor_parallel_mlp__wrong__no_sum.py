"""Forgets the all-reduce: each device goes on with its part, right on one device.

Told: none
Fails: the layers' result; one all-reduce per layer
"""


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
