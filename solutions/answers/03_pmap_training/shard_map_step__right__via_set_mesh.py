"""Makes the mesh by jax.make_mesh, and finds it in the context."""

from jax.sharding import NamedSharding


def start(params, x, y, lr):
    expect = lambda p: jax.lax.pmean(mlp_loss(p, x, y), "rows")  # noqa: E731
    check, back = jax.vjp(expect, params)
    (grads,) = back(jnp.ones_like(check))
    return {name: params[name] - lr * grads[name] for name in grads}, check


@functools.cache
def program(mesh):
    specs = (P(), P("rows"), P("rows"), P())
    return jax.jit(jax.shard_map(start, in_specs=specs, out_specs=(P(), P())))


def shard_map_step(params, x, y, lr, num_devices):
    count = x.shape[0]
    if count % num_devices != 0:
        raise ValueError(f"cannot give {count} rows to {num_devices} devices")
    mesh = jax.make_mesh((num_devices,), ("rows",), devices=jax.devices()[:num_devices])
    with jax.set_mesh(mesh):
        split = NamedSharding(mesh, P("rows"))
        x, y = jax.device_put((x, y), split)
        params = jax.device_put(params, NamedSharding(mesh, P()))
        return program(mesh)(params, x, y, lr)
