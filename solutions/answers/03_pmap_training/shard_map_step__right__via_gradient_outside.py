"""Maps the loss alone, and differentiates the mapped function as a whole."""


@functools.cache
def whole_gradient(num_devices):
    def loss_of(params, x, y):
        return jax.lax.pmean(mlp_loss(params, x, y), "devices")

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"))
    whole = jax.shard_map(loss_of, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(jax.value_and_grad(whole))


def shard_map_step(params, x, y, lr, num_devices):
    loss, grads = whole_gradient(num_devices)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss
