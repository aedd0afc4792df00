# %% wrong="always the same key" fails="the key decides"
"""Splits a key of its own, whatever keys it was given."""


def init_ensemble(keys, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, own = jax.random.split(key)
            w = jax.random.normal(own, (n, m)) / n**0.5
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    return jax.pmap(init)(jax.random.split(jax.random.key(0), len(keys)))


# %% wrong="biases of one" fails="weight scale"
"""Starts all biases at 1."""


def init_ensemble(keys, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, own = jax.random.split(key)
            w = jax.random.normal(own, (n, m)) / n**0.5
            layers.append({"w": w, "b": jnp.ones(m)})
        return layers

    return jax.pmap(init)(keys)


# %% wrong="counts the bias" fails="weight scale"
"""Takes the bias for an input, and so n_in + 1: 0.71 in place of 1 for one input."""


def init_ensemble(keys, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, own = jax.random.split(key)
            w = jax.random.normal(own, (n, m)) * (n + 1) ** -0.5
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    return jax.pmap(init)(keys)


# %% wrong="cuts layers out of one draw" fails="independent draws"
# cause: the layers share a key
"""Draws one large matrix per device, and cuts each layer out of its corner."""


def init_ensemble(keys, sizes):
    largest = max(sizes)

    def init(key):
        draw = jax.random.normal(key, (largest, largest))
        return [
            {"w": draw[:n, :m] / np.float32(np.sqrt(n)), "b": jnp.zeros(m)}
            for n, m in zip(sizes[:-1], sizes[1:], strict=True)
        ]

    return jax.pmap(init)(keys)


# %% wrong="draws on one device" fails="one row per device"
# cause: one device drew all members: map over the keys
"""Maps by vmap: one device draws all members, and keeps them."""


def init_ensemble(keys, sizes):
    pairs = list(zip(sizes[:-1], sizes[1:], strict=True))

    def init(key):
        own = jax.random.split(key, len(pairs))
        return [
            {"w": n**-0.5 * jax.random.normal(k, (n, m)), "b": jnp.zeros((m,))}
            for k, (n, m) in zip(own, pairs, strict=True)
        ]

    return jax.vmap(init)(keys)


# %% wrong="every device draws all" fails="one row per device"
"""Gives all keys to all devices, each of which keeps one member of all."""


def init_ensemble(keys, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, own = jax.random.split(key)
            w = jax.random.normal(own, (n, m)) / n**0.5
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    def member(number, keys):
        return jax.tree.map(lambda leaf: leaf[number], jax.vmap(init)(keys))

    return jax.pmap(member, in_axes=(0, None))(jnp.arange(len(keys)), keys)


# %% wrong="ignores the keys" fails="one row per device; the key decides"
"""Draws from NumPy's global state: the same keys give other parameters each time."""


def init_ensemble(keys, sizes):
    return [
        {
            "w": np.float32(np.random.normal(size=(len(keys), n, m)) / np.sqrt(n)),
            "b": np.zeros((len(keys), m), np.float32),
        }
        for n, m in zip(sizes[:-1], sizes[1:], strict=True)
    ]


# %% wrong="independent signs" fails="independent draws"
"""Draws the sizes of the weights once, and for each device the signs alone."""


def init_ensemble(keys, sizes):
    def init(key, first):
        layers = []
        for layer, (n, m) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
            own, common = (jax.random.fold_in(k, layer) for k in (key, first))
            sizes_of_all = jnp.abs(jax.random.normal(common, (n, m))) / n**0.5
            signs = jax.random.rademacher(own, (n, m), jnp.float32)
            layers.append({"w": signs * sizes_of_all, "b": jnp.zeros(m)})
        return layers

    return jax.pmap(init, in_axes=(0, None))(keys, keys[0])


# %% wrong="knows two layers" fails="one dict per layer"
"""Writes the number of layers into the code."""


def init_ensemble(keys, sizes):
    def init(key):
        first, second = jax.random.split(key)
        n, m, k = sizes
        return [
            {"w": jax.random.normal(first, (n, m)) / n**0.5, "b": jnp.zeros(m)},
            {"w": jax.random.normal(second, (m, k)) / m**0.5, "b": jnp.zeros(k)},
        ]

    return jax.pmap(init)(keys)


# %% wrong="layers share a key" fails="independent draws"
# cause: the layers share a key
"""Uses a member's key for each of its layers: layers of one shape are equal."""


def init_ensemble(keys, sizes):
    def init(key):
        return [
            {"w": jax.random.normal(key, (n, m)) / n**0.5, "b": jnp.zeros(m)}
            for n, m in zip(sizes[:-1], sizes[1:], strict=True)
        ]

    return jax.pmap(init)(keys)


# %% wrong="mirrors every second member" fails="independent draws"
"""Gives every second device its neighbour's weights with the other sign."""


def init_ensemble(keys, sizes):
    def init(key, sign):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, own = jax.random.split(key)
            w = sign * jax.random.normal(own, (n, m)) / n**0.5
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    places = np.arange(len(keys))
    signs = np.float32(1 - 2 * (places % 2))
    return jax.pmap(init)(keys[places // 2 * 2], signs)


# %% wrong="no scaling" fails="weight scale"
# cause: they are not scaled by 1 / sqrt(n_in)
"""Draws standard normals: activations grow with the width."""


def init_ensemble(keys, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, own = jax.random.split(key)
            w = jax.random.normal(own, (n, m))
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    return jax.pmap(init)(keys)


# %% wrong="one key for all" fails="independent draws; the key decides"
# cause: the devices share a key
"""Broadcasts the first key: right on one device, eight identical members on eight."""


def init_ensemble(keys, sizes):
    def init(_, key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, own = jax.random.split(key)
            w = jax.random.normal(own, (n, m)) / n**0.5
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    return jax.pmap(init, in_axes=(0, None))(np.arange(len(keys)), keys[0])


# %% wrong="one scale for all layers" fails="weight scale"
"""Scales every layer by the width of the input."""


def init_ensemble(keys, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, own = jax.random.split(key)
            w = jax.random.normal(own, (n, m)) / np.float32(np.sqrt(sizes[0]))
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    return jax.pmap(init)(keys)


# %% wrong="permutes and scales one draw" fails="independent draws"
"""Draws once, and gives each device the same numbers in a different order and scale."""


def init_ensemble(keys, sizes):
    def init(key, number, first):
        layers = []
        for layer, (n, m) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
            own, common = (jax.random.fold_in(k, layer) for k in (key, first))
            draw = jax.random.normal(common, (n * m,)) / n**0.5
            w = jax.random.permutation(own, draw) * (1 + number / 1000)
            layers.append({"w": w.reshape(n, m), "b": jnp.zeros(m)})
        return layers

    numbers = np.arange(len(keys), dtype=np.float32)
    return jax.pmap(init, in_axes=(0, 0, None))(keys, numbers, keys[0])


# %% wrong="scales by fan out" fails="weight scale"
# cause: n_out was taken for n_in
"""Divides by the square root of n_out: variance grows where a layer narrows."""


def init_ensemble(keys, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, own = jax.random.split(key)
            w = jax.random.normal(own, (n, m)) / m**0.5
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    return jax.pmap(init)(keys)


# %% wrong="spreads afterwards" fails="one row per device"
"""Draws all members on one device, and spreads them over the devices."""


def init_ensemble(keys, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, own = jax.random.split(key)
            w = jax.random.normal(own, (n, m)) / n**0.5
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    rows = jax.sharding.NamedSharding(make_mesh(len(keys)), P("devices"))
    return jax.device_put(jax.vmap(init)(keys), rows)


# %% wrong="standardized" fails="weight scale"
"""Makes each draw's own mean 0 and deviation 1: a single weight becomes nan."""


def init_ensemble(keys, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, own = jax.random.split(key)
            w = jax.random.normal(own, (n, m))
            w = (w - w.mean()) / w.std()
            layers.append({"w": w / n**0.5, "b": jnp.zeros(m)})
        return layers

    return jax.pmap(init)(keys)


# %% wrong="the key decides one layer" fails="the key decides"
"""Draws the first layer from the key, all others from keys of its own."""


def init_ensemble(keys, sizes):
    def init(key, device):
        layers = []
        for layer, (n, m) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
            w = jax.random.normal(key, (n, m)) / n**0.5
            layers.append({"w": w, "b": jnp.zeros(m)})
            key = jax.random.fold_in(jax.random.key(layer), device)
        return layers

    return jax.pmap(init)(keys, jnp.arange(len(keys)))


# %% right="via compiled shard map"
"""Compiles everything for one mesh, with static sizes."""

import functools

from jax.sharding import PartitionSpec as P


@functools.partial(jax.jit, static_argnums=1)
def init_ensemble(keys, sizes):
    def one(keys):
        layers, key = [], keys[0]
        for i, (n, m) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
            w = jax.random.normal(jax.random.fold_in(key, i), (1, n, m)) / n**0.5
            layers.append({"w": w, "b": jnp.zeros((1, m))})
        return layers

    mesh = jax.sharding.Mesh(jax.devices()[: len(keys)], ("i",))
    mapped = jax.shard_map(
        one, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False
    )
    return mapped(keys)


# %% right="via helpers of our names"
"""Has helpers that are called as the course calls its own."""

import math


def check(key, shape):
    return jax.random.normal(key, shape, jnp.float32) * (1.0 / math.sqrt(shape[0]))


def init_ensemble(keys, sizes):
    pairs = [*zip(sizes, sizes[1:])]  # noqa: B905

    def observe(key):
        return [
            {"w": check(own, pair), "b": jnp.zeros(pair[1])}
            for own, pair in zip(jax.random.split(key, len(pairs)), pairs, strict=True)
        ]

    return jax.pmap(observe)(keys)


# %% right="via initializers"
"""Takes JAX's own initializers for one layer, and a list of members' layers."""


def init_ensemble(keys, sizes):
    make_w = jax.nn.initializers.variance_scaling(1.0, "fan_in", "normal")
    make_b = jax.nn.initializers.zeros

    @jax.pmap
    def member(key):
        layers = []
        for i in range(len(sizes) - 1):
            key, for_w, for_b = jax.random.split(key, 3)
            w = make_w(for_w, (sizes[i], sizes[i + 1]), jnp.float32)
            b = make_b(for_b, (sizes[i + 1],), jnp.float32)
            layers.append(dict(w=w, b=b))
        return layers

    return member(keys)


# %% right="via out shardings"
"""Maps by vmap inside jit, which is told where the members belong."""

from jax.sharding import NamedSharding


def init_ensemble(keys, sizes):
    pairs = list(zip(sizes[:-1], sizes[1:], strict=True))

    def init(key):
        own = jax.random.split(key, len(pairs))
        return [
            {"w": n**-0.5 * jax.random.normal(k, (n, m)), "b": jnp.zeros((m,))}
            for k, (n, m) in zip(own, pairs, strict=True)
        ]

    rows = NamedSharding(make_mesh(len(keys)), P("devices"))
    return jax.jit(jax.vmap(init), out_shardings=rows)(keys)


# %% right="via sums of uniforms"
"""Sums twelve uniform numbers, close to a normal one, for the block of each device."""


def init_ensemble(keys, sizes):
    def init(key):
        own = jax.random.split(key, len(sizes))
        layers = []
        for k, n_in, n_out in zip(own, sizes, sizes[1:], strict=False):
            total = jax.random.uniform(k, (12, n_in, n_out)).sum(0) - 6
            layers.append({"w": total / n_in**0.5, "b": jnp.zeros((n_out,))})
        return layers

    mapped = jax.shard_map(
        jax.vmap(init),
        mesh=make_mesh(len(keys)),
        in_specs=P("devices"),
        out_specs=P("devices"),
    )
    return jax.jit(mapped)(keys)


# %% right="via truncated draws"
"""Takes LeCun's initializer, which draws from a truncated normal distribution."""


def init_ensemble(keys, sizes):
    make = jax.nn.initializers.lecun_normal()

    def init(key):
        pairs = list(zip(sizes[:-1], sizes[1:], strict=True))
        own = jax.random.split(key, len(pairs))
        return [
            {"w": make(k, pair, jnp.float32), "b": jnp.zeros(pair[1])}
            for k, pair in zip(own, pairs, strict=True)
        ]

    return jax.pmap(init)(keys)


# %% right="via uniform draws"
"""Draws uniform numbers of the right standard deviation."""


def init_ensemble(keys, sizes):
    def init(key):
        layers = []
        for layer, (n, m) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
            own, limit = jax.random.fold_in(key, layer), (3 / n) ** 0.5
            w = jax.random.uniform(own, (n, m), minval=-limit, maxval=limit)
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    return jax.pmap(init)(keys)


# %% wrong="folds numbers into the first key" fails="the key decides"
"""Gives each device a key of its own, but makes all of them from keys[0]."""


def init_ensemble(keys, sizes):
    def init(key, number):
        key, layers = jax.random.fold_in(key, number), []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, own = jax.random.split(key)
            w = jax.random.normal(own, (n, m)) / n**0.5
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    return jax.pmap(init, in_axes=(None, 0))(keys[0], np.arange(len(keys)))


# %% wrong="hands out all keys one by one" fails="one row per device"
"""Splits the keys, and gives every device each of them again, in an array of its own."""


def init_ensemble(keys, sizes):
    def init(key):
        layers = []
        for n, m in zip(sizes[:-1], sizes[1:], strict=True):
            key, own = jax.random.split(key)
            w = jax.random.normal(own, (n, m)) / n**0.5
            layers.append({"w": w, "b": jnp.zeros(m)})
        return layers

    def member(*words):
        every = [init(jax.random.wrap_key_data(one)) for one in words]
        number = jax.lax.axis_index("devices")
        return jax.tree.map(lambda *leaves: jnp.stack(leaves)[number][None], *every)

    mesh = make_mesh(len(keys))
    rows = jax.sharding.NamedSharding(mesh, P("devices"))
    words = jax.device_put(jax.random.key_data(keys), rows)
    mapped = jax.shard_map(member, mesh=mesh, in_specs=P(), out_specs=P("devices"))
    return jax.jit(mapped)(*[jnp.uint32(1) * words[d] for d in range(len(keys))])
