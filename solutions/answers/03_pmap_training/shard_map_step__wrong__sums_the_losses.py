"""Differentiates the sum of the devices' means: D times too large as well.

Told: the gradient is 8 times the right one
Fails: one step of SGD
"""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        def loss_of(params):
            return jax.lax.psum(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return params, loss / num_devices

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:num_devices]), ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")
    return compiled_step(num_devices)(params, x, y, lr)
