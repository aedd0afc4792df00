"""Lets rows that do not divide fall under the table.

Told: none
Fails: rows do not divide
"""


@functools.cache
def compiled_step(num_devices):
    def step(params, x, y, lr):
        def loss_of(params):
            return jax.lax.pmean(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)


def shard_map_step(params, x, y, lr, num_devices):
    kept = len(x) - len(x) % num_devices
    return compiled_step(num_devices)(params, x[:kept], y[:kept], lr)
