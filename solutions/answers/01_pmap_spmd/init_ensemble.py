# %% wrong="always the same key" fails="the key decides"
"""Splits a key of its own, whatever key it was given."""


def init_ensemble(key, num_devices, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, layer_key = jax.random.split(key)
            w = jax.random.normal(layer_key, (n, m)) / np.float32(np.sqrt(n))
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    return jax.pmap(init)(jax.random.split(jax.random.key(0), num_devices))


# %% wrong="counts the bias" fails="weight scale"
"""Standard deviation 1 / sqrt(n_in + 1), counting the bias as an input ("1 /
sqrt(n_in)"); for n_in = 1 it is 0.71 in place of 1.
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


# %% wrong="cuts layers out of one draw" fails="independent draws"
# cause: the layers share a key
"""Draws one large matrix per device, and cuts each layer out of its corner."""


def init_ensemble(key, num_devices, sizes):
    largest = max(sizes)

    def init(key):
        draw = jax.random.normal(key, (largest, largest))
        return [
            {"w": draw[:n, :m] / np.float32(np.sqrt(n)), "b": jnp.zeros(m)}
            for n, m in zip(sizes[:-1], sizes[1:], strict=True)
        ]

    return jax.vmap(init)(jax.random.split(key, num_devices))


# %% wrong="ignores the key" fails="the key decides"
"""Draws from NumPy's global state: the same key gives other parameters each time."""


def init_ensemble(key, num_devices, sizes):
    return [
        {
            "w": np.float32(np.random.normal(size=(num_devices, n, m)) / np.sqrt(n)),
            "b": np.zeros((num_devices, m), np.float32),
        }
        for n, m in zip(sizes[:-1], sizes[1:], strict=True)
    ]


# %% wrong="knows two layers" fails="one dict per layer"
"""Writes the number of layers into the code."""


def init_ensemble(key, num_devices, sizes):
    def init(key):
        first, second = jax.random.split(key)
        n, m, k = sizes
        return [
            {"w": jax.random.normal(first, (n, m)) / n**0.5, "b": jnp.zeros(m)},
            {"w": jax.random.normal(second, (m, k)) / m**0.5, "b": jnp.zeros(k)},
        ]

    return jax.vmap(init)(jax.random.split(key, num_devices))


# %% wrong="layers share a key" fails="independent draws"
# cause: the layers share a key
"""Uses a member's key for each of its layers: layers of one shape are equal."""


def init_ensemble(key, num_devices, sizes):
    def init(key):
        return [
            {
                "w": jax.random.normal(key, (n, m)) / jnp.sqrt(float(n)),
                "b": jnp.zeros(m),
            }
            for n, m in zip(sizes[:-1], sizes[1:], strict=True)
        ]

    return jax.pmap(init)(jax.random.split(key, num_devices))


# %% wrong="mirrors every second member" fails="independent draws"
"""Gives every second device its neighbour's weights with the other sign."""


def init_ensemble(key, num_devices, sizes):
    pairs = list(zip(sizes[:-1], sizes[1:], strict=True))
    signs = np.float32([1 - 2 * (d % 2) for d in range(num_devices)])[:, None, None]

    def init(key):
        keys = jax.random.split(key, len(pairs))
        return [
            {"w": n**-0.5 * jax.random.normal(k, (n, m)), "b": jnp.zeros((m,))}
            for k, (n, m) in zip(keys, pairs, strict=True)
        ]

    keys = jax.random.split(key, num_devices)[np.arange(num_devices) // 2 * 2]
    return [layer | {"w": layer["w"] * signs} for layer in jax.vmap(init)(keys)]


# %% wrong="neighbours share keys" fails="independent draws"
"""Numbers the keys by device + layer: a layer equals the neighbour's next one."""


def init_ensemble(key, num_devices, sizes):
    layers = []
    for layer, (n, m) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        w = [
            jax.random.normal(jax.random.fold_in(key, device + layer), (n, m)) / n**0.5
            for device in range(num_devices)
        ]
        layers.append({"w": jnp.stack(w), "b": jnp.zeros((num_devices, m))})
    return layers


# %% wrong="no scaling" fails="weight scale"
# cause: they are not scaled by 1 / sqrt(n_in)
"""Draws standard normals: activations grow with the width."""


def init_ensemble(key, num_devices, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, layer_key = jax.random.split(key)
            layers.append(
                {"w": jax.random.normal(layer_key, (n, m)), "b": jnp.zeros(m)}
            )
        return layers

    return jax.pmap(init)(jax.random.split(key, num_devices))


# %% wrong="one key for all" fails="independent draws"
# cause: the devices share a key
"""Broadcasts the key: right on one device, eight identical members on eight."""


def init_ensemble(key, num_devices, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    layers = []
    for layer_key, n_in, n_out in zip(keys, sizes[:-1], sizes[1:], strict=True):
        w = jax.random.normal(layer_key, (n_in, n_out)) / np.sqrt(n_in)
        w = w.astype(jnp.float32)
        layers.append(
            {"w": jnp.stack([w] * num_devices), "b": jnp.zeros((num_devices, n_out))}
        )
    return layers


# %% wrong="one scale for all layers" fails="weight scale"
"""Scales every layer by the width of the input."""


def init_ensemble(key, num_devices, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, layer_key = jax.random.split(key)
            w = jax.random.normal(layer_key, (n, m)) / np.float32(np.sqrt(sizes[0]))
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    return jax.pmap(init)(jax.random.split(key, num_devices))


# %% wrong="scales by fan out" fails="weight scale"
# cause: n_out was taken for n_in
"""Divides by the square root of n_out: variance grows where a layer narrows."""


def init_ensemble(key, num_devices, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, layer_key = jax.random.split(key)
            w = jax.random.normal(layer_key, (n, m)) / jnp.sqrt(float(m))
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    return jax.pmap(init)(jax.random.split(key, num_devices))


# %% wrong="standardized" fails="weight scale"
"""Makes each draw's own mean 0 and deviation 1: a single weight becomes nan."""


def init_ensemble(key, num_devices, sizes):
    def init(key):
        layers = []
        for n_in, n_out in zip(sizes[:-1], sizes[1:], strict=False):
            key, layer_key = jax.random.split(key)
            w = jax.random.normal(layer_key, (n_in, n_out))
            w = (w - w.mean()) / w.std()
            layers.append({"w": w / jnp.sqrt(n_in), "b": jnp.zeros(n_out)})
        return layers

    return jax.pmap(init)(jax.random.split(key, num_devices))


# %% wrong="the key decides one layer" fails="the key decides"
"""Draws the first layer from the key, all others from keys of its own."""


def init_ensemble(key, num_devices, sizes):
    def init(key, device):
        layers = []
        for layer, (n, m) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
            layers.append(
                {"w": jax.random.normal(key, (n, m)) / n**0.5, "b": jnp.zeros(m)}
            )
            key = jax.random.fold_in(jax.random.key(layer), device)
        return layers

    keys = jax.random.split(key, num_devices)
    return jax.vmap(init)(keys, jnp.arange(num_devices))


# %% right="via a table of keys"
"""Splits the key into a table, one key for each layer of each device."""

import math


def init_ensemble(key, num_devices, sizes):
    pairs = [*zip(sizes, sizes[1:])]  # noqa: B905
    table = jax.random.split(key, (num_devices, len(pairs)))

    def check(keys, shape):
        draw = jax.vmap(lambda key: jax.random.normal(key, shape, jnp.float32))
        return draw(keys) * (1.0 / math.sqrt(shape[0]))

    return [
        {"w": check(table[:, layer], pair), "b": jnp.zeros((num_devices, pair[1]))}
        for layer, pair in enumerate(pairs)
    ]


# %% right="via compiled shard map"
"""Compiles everything for one mesh, with static sizes."""

import functools

from jax.sharding import PartitionSpec as P


@functools.partial(jax.jit, static_argnums=(1, 2))
def init_ensemble(key, num_devices, sizes):
    def one(keys):
        layers, key = [], keys[0]
        for i, (n, m) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
            w = jax.random.normal(jax.random.fold_in(key, i), (1, n, m)) / n**0.5
            layers.append({"w": w, "b": jnp.zeros((1, m))})
        return layers

    mesh = jax.sharding.Mesh(jax.devices()[:num_devices], ("i",))
    mapped = jax.shard_map(
        one, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False
    )
    return mapped(jax.random.split(key, num_devices))


# %% right="via fold in"
"""Derives each key by fold_in from device and layer number, and stacks on the host."""


def init_ensemble(key, num_devices, sizes):
    layers = []
    for layer, (n, m) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        layer_key = jax.random.fold_in(key, layer)
        members = [
            jax.random.normal(jax.random.fold_in(layer_key, device), (n, m)) / n**0.5
            for device in range(num_devices)
        ]
        b = np.zeros((num_devices, m), np.float32)
        layers.append({"w": np.stack(members), "b": b})
    return layers


# %% right="via initializers"
"""Takes JAX's own initializers for one layer."""


def init_ensemble(key, num_devices, sizes):
    make_w = jax.nn.initializers.variance_scaling(1.0, "fan_in", "normal")
    make_b = jax.nn.initializers.zeros

    def member(key):
        layers = []
        for i in range(len(sizes) - 1):
            key, for_w, for_b = jax.random.split(key, 3)
            w = make_w(for_w, (sizes[i], sizes[i + 1]), jnp.float32)
            b = make_b(for_b, (sizes[i + 1],), jnp.float32)
            layers.append(dict(w=w, b=b))
        return layers

    members = [member(key) for key in jax.random.split(key, num_devices)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)


# %% right="via numpy"
"""Seeds generators of NumPy's, one for each layer of each device, by the key."""


def init_ensemble(key, num_devices, sizes):
    seed = np.random.SeedSequence(np.asarray(jax.random.key_data(key)).tolist())
    layers = []
    for n_in, n_out in zip(sizes[:-1], sizes[1:], strict=True):
        w = [
            np.random.default_rng(one).normal(0, n_in**-0.5, (n_in, n_out))
            for one in seed.spawn(num_devices)
        ]
        b = np.zeros((num_devices, n_out), "float32")
        layers.append({"w": np.array(w, "float32"), "b": b})
    return layers


# %% right="via sums of uniforms"
"""Sums twelve uniform numbers, which is close to a normal one."""


def init_ensemble(key, num_devices, sizes):
    def init(key):
        keys = jax.random.split(key, len(sizes))
        layers = []
        for k, n_in, n_out in zip(keys, sizes, sizes[1:], strict=False):
            total = jax.random.uniform(k, (12, n_in, n_out)).sum(0) - 6
            layers.append({"w": total / n_in**0.5, "b": jnp.zeros((n_out,))})
        return layers

    return jax.vmap(init)(jax.random.split(key, num_devices))


# %% right="via truncated draws"
"""Takes LeCun's initializer, which draws from a truncated normal distribution."""


def init_ensemble(key, num_devices, sizes):
    make = jax.nn.initializers.lecun_normal()

    def init(key):
        pairs = list(zip(sizes[:-1], sizes[1:], strict=True))
        keys = jax.random.split(key, len(pairs))
        return [
            {"w": make(k, pair, jnp.float32), "b": jnp.zeros(pair[1])}
            for k, pair in zip(keys, pairs, strict=True)
        ]

    return jax.pmap(init)(jax.random.split(key, num_devices))


# %% right="via uniform draws"
"""Draws uniform numbers of the right standard deviation."""


def init_ensemble(key, num_devices, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, layer_key = jax.random.split(key)
            limit = (3 / n) ** 0.5
            w = jax.random.uniform(layer_key, (n, m), minval=-limit, maxval=limit)
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    return jax.vmap(init)(jax.random.split(key, num_devices))


# %% right="via vmap"
"""Maps by vmap; who computes does not matter here."""


def init_ensemble(key, num_devices, sizes):
    pairs = list(zip(sizes[:-1], sizes[1:], strict=True))

    def init(key):
        keys = jax.random.split(key, len(pairs))
        return [
            {"w": n**-0.5 * jax.random.normal(k, (n, m)), "b": jnp.zeros((m,))}
            for k, (n, m) in zip(keys, pairs, strict=True)
        ]

    return jax.vmap(init)(jax.random.split(key, num_devices))


# %% wrong="permutes and scales one draw" fails="independent draws"
"""Draws once, and gives each device the same numbers in another order and scale."""


def init_ensemble(key, num_devices, sizes):
    layers = []
    for n, m in zip(sizes[:-1], sizes[1:], strict=True):
        key, own = jax.random.split(key)
        draw = jax.random.normal(own, (n * m,)) / n**0.5
        keys = jax.random.split(own, num_devices)
        w = [
            jax.random.permutation(one, draw) * (1 + d / 1000)
            for d, one in enumerate(keys)
        ]
        w = jnp.stack(w).reshape(num_devices, n, m)
        layers.append({"w": w, "b": jnp.zeros((num_devices, m))})
    return layers


# %% wrong="independent signs" fails="independent draws"
"""Draws the sizes of the weights once, and for each device the signs alone."""


def init_ensemble(key, num_devices, sizes):
    layers = []
    for n, m in zip(sizes[:-1], sizes[1:], strict=True):
        key, own, signs = jax.random.split(key, 3)
        draw = jnp.abs(jax.random.normal(own, (n, m))) / n**0.5
        signs = jax.random.rademacher(signs, (num_devices, n, m), jnp.float32)
        layers.append({"w": signs * draw, "b": jnp.zeros((num_devices, m))})
    return layers
