"""Builds the mesh of all devices, whatever num_devices says.

Told: none
"""


def shard_map_step(params, x, y, lr, num_devices):
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")

    def step(params, x, y):
        def loss_of(params):
            return jax.lax.pmean(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("devices",))
    specs = (P(), P("devices"), P("devices"))
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)(params, x, y)
