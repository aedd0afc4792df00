"""Places the arrays and lets the compiler split the work: lesson 4, not shard_map.

Told: none
Fails: own rows only; sent once
"""


@jax.jit
def jitted_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def shard_map_step(params, x, y, lr, num_devices):
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    whole, split = (jax.sharding.NamedSharding(mesh, s) for s in (P(), P("devices")))
    params = jax.device_put(params, whole)
    return jitted_step(params, jax.device_put(x, split), jax.device_put(y, split), lr)
