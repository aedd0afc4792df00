"""One jit at the top level, to which the number of devices is static."""


def local_step(params, x, y, lr):
    def loss_of(params):
        return jax.lax.pmean(mlp_loss(params, x, y), "d")

    loss, grads = jax.value_and_grad(loss_of)(params)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


@functools.partial(jax.jit, static_argnums=4)
def shard_map_step(params, x, y, lr, num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("d",))
    specs = (P(), P("d"), P("d"), P())
    step = jax.shard_map(local_step, mesh=mesh, in_specs=specs, out_specs=P())
    return step(params, x, y, lr)
