"""Takes the last devices.

Told: none
Fails: weights by H and y by B
"""


def tensor_parallel_mlp(params, x, mesh_shape):
    devices = np.array(jax.devices()[-math.prod(mesh_shape) :]).reshape(mesh_shape)
    mesh = jax.sharding.Mesh(devices, ("data", "model"))
    specs = {"w1": P(None, None, "model"), "w2": P(None, "model", None)}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    params = jax.lax.with_sharding_constraint(params, shardings)
    rows = NamedSharding(mesh, P("data"))
    x = jax.lax.with_sharding_constraint(x, rows)
    return params, jax.jit(mlp, out_shardings=rows)(params, x)
