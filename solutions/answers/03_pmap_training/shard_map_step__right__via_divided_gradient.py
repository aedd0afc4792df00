"""Knows that the gradient comes summed, and divides it by the devices."""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        grads = jax.tree.map(lambda g: g / num_devices, grads)
        params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return params, jax.lax.pmean(loss, "devices")

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:num_devices]), ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")
    return compiled_step(num_devices)(params, x, y, lr)
