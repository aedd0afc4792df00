"""Standard deviation 1 / sqrt(n_in + 1), counting the bias as an input ("1 /
sqrt(n_in)"); for n_in = 1 it is 0.71 in place of 1.

Told: none
Fails: normal weights
"""


def init_ensemble(key, num_devices, sizes):
    def init(key):
        layers = []
        for n_in, n_out in zip(sizes[:-1], sizes[1:], strict=True):
            key, own = jax.random.split(key)
            w = jax.random.normal(own, (n_in, n_out)) * (n_in + 1) ** -0.5
            layers.append({"w": w, "b": jnp.zeros(n_out)})
        return layers

    return jax.pmap(init)(jax.random.split(key, num_devices))
