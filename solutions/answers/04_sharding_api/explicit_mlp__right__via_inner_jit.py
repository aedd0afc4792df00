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
