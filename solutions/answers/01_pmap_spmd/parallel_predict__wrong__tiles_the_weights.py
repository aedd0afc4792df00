"""Makes copies of the weights below each other, in another shape than (D, F, C).

Told: none
Fails: no stacked parameters
"""


def parallel_predict(params, x):
    num_devices, (width, _) = len(x), params["w"].shape
    tall = jnp.tile(params["w"], (num_devices, 1))

    def run(device, x):
        w = jax.lax.dynamic_slice_in_dim(tall, device * width, width)
        return predict({"w": w, "b": params["b"]}, x)

    return jax.pmap(run)(jnp.arange(num_devices), x)
