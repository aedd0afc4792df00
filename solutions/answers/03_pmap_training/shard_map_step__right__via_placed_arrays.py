"""Places rows by jax.make_array_from_process_local_data; sums shares of the loss."""

import functools

from jax.sharding import NamedSharding


@functools.cache
def observe(num_devices):
    mesh = Mesh(np.array(jax.devices()[:num_devices]), "d")

    @jax.jit
    @functools.partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P("d"), P("d"), P()),
        out_specs=P(),
    )
    def take(params, x, y, lr):
        def share(params):
            return jax.lax.psum(mlp_loss(params, x, y) / num_devices, "d")

        loss, grads = jax.value_and_grad(share)(params)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    return mesh, take


def shard_map_step(params, x, y, lr, num_devices):
    if len(y) % num_devices:
        raise ValueError(f"{num_devices} does not divide {len(y)}")
    mesh, take = observe(num_devices)
    rows = NamedSharding(mesh, P("d"))
    place = functools.partial(jax.make_array_from_process_local_data, rows)
    return take(params, place(x), place(y), lr)
