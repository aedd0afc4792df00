"""Keeps the first program for a number of devices, with the learning rate in it.

Told: none
Fails: one step of SGD; nothing is remembered
"""

made = {}


def shard_map_step(params, x, y, lr, num_devices):
    def step(params, x, y):
        def loss_of(params):
            return jax.lax.pmean(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    if num_devices not in made:
        mesh = Mesh(jax.devices()[:num_devices], ("devices",))
        specs = (P(), P("devices"), P("devices"))
        mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
        made[num_devices] = jax.jit(mapped)
    return made[num_devices](params, x, y)
