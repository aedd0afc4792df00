# %% wrong="always eight rows" fails="a row on each device"
"""Takes the devices of this machine for the replicas that were asked for."""


def replicate(tree, num_devices):
    if num_devices > 8:
        raise ValueError(f"{num_devices} replicas, 8 devices")
    copy = jax.pmap(lambda _, whole: whole, in_axes=(0, None))
    return copy(np.arange(8), tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)


# %% wrong="averages the replicas" fails="the first replica"
# cause: the replicas were averaged
"""Takes the mean of the replicas: another dtype for integers, and it hides drift."""


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(f"{num_devices} replicas, {jax.device_count()} devices")
    return jax.pmap(lambda _, whole: whole, in_axes=(0, None))(
        np.arange(num_devices), tree
    )


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf.mean(0).astype(leaf.dtype), tree)


# %% wrong="casts to float32" fails="a row on each device; dtypes stay"
"""Thinks that everything on a device is float32."""


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(f"{num_devices} replicas, {jax.device_count()} devices")
    tree = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)
    return jax.pmap(lambda _, whole: whole, in_axes=(0, None))(
        np.arange(num_devices), tree
    )


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)


# %% wrong="checked per leaf" fails="too many replicas"
"""Compares the number of devices leaf by leaf: a tree without leaves raises nothing."""

from jax.sharding import Mesh, NamedSharding, PartitionSpec


def replicate(tree, num_devices):
    def copy(leaf):
        devices = jax.devices()
        if num_devices > len(devices):
            raise ValueError(
                f"cannot put {num_devices} replicas on {len(devices)} devices"
            )
        mesh = Mesh(devices[:num_devices], ("replica",))
        rows = np.stack([np.asarray(jnp.asarray(leaf))] * num_devices)
        return jax.device_put(rows, NamedSharding(mesh, PartitionSpec("replica")))

    return jax.tree.map(copy, tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)


# %% wrong="every device holds all rows" fails="a row on each device"
"""Replicates the stack itself: eight devices hold eight rows each."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def replicate(tree, num_devices):
    devices = jax.devices()
    if num_devices > len(devices):
        raise ValueError(f"{num_devices} replicas, {len(devices)} devices")
    mesh = jax.sharding.Mesh(np.array(devices[:num_devices]), ("replica",))

    def copy(leaf):
        stack = jnp.stack([jnp.asarray(leaf)] * num_devices)
        return jax.device_put(stack, NamedSharding(mesh, P()))

    return jax.tree.map(copy, tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)


# %% wrong="keeps numbers by value" fails="dtypes stay"
"""Keeps numbers by their value: 1, True and 1.0 are one."""


@functools.cache
def _number(value, num_devices):
    row = np.asarray(value, {bool: bool, int: np.int32, float: np.float32}[type(value)])
    return _put(row, num_devices)


def _put(row, num_devices):
    spread = NamedSharding(Mesh(jax.devices()[:num_devices], ("d",)), P("d"))
    return jax.device_put(np.stack([row] * num_devices), spread)


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(f"{num_devices} replicas on {jax.device_count()} devices")

    def copy(leaf):
        if type(leaf) in (bool, int, float):
            return _number(leaf, num_devices)
        return _put(np.asarray(leaf), num_devices)

    return jax.tree.map(copy, tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), tree)


# %% wrong="knows one error only" fails="too many replicas"
"""Writes the numbers of one call into the text of the error."""


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError("cannot put 9 replicas on 8 devices")
    copy = jax.pmap(lambda _, whole: whole, in_axes=(0, None))
    return copy(np.arange(num_devices), tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)


# %% wrong="leaves the error to pmap" fails="too many replicas"
"""Lets pmap complain, which tells of 16 replicas that 2 does not equal 1."""


def replicate(tree, num_devices):
    copy = jax.pmap(lambda _, whole: whole, in_axes=(0, None))
    return copy(np.arange(num_devices), tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)


# %% wrong="remembers the first copies" fails="a row on each device; dtypes stay; nothing is remembered"
"""Keeps copies by structure and shapes, as if they were programs."""

made = {}


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(f"{num_devices} replicas, {jax.device_count()} devices")
    key = str(jax.tree.map(jnp.shape, tree)), num_devices
    if key not in made:
        copy = jax.pmap(lambda _, whole: whole, in_axes=(0, None))
        made[key] = copy(np.arange(num_devices), tree)
    return made[key]


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)


# %% wrong="squeezes the first row" fails="the first replica"
"""Removes every axis of length one, not the leading one alone."""


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(f"{num_devices} replicas, {jax.device_count()} devices")
    copy = jax.pmap(lambda _, whole: whole, in_axes=(0, None))
    return copy(np.arange(num_devices), tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: jnp.squeeze(leaf[:1]), tree)


# %% wrong="stacks on one device" fails="a row on each device"
# cause: a stack is one array in one place: pmap, or a sharding, spreads its rows
"""Takes a stacked array for a spread one: right on one device, and eight copies on
device 0.
"""


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(f"{num_devices} replicas, {jax.device_count()} devices")
    return jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * num_devices), tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)


# %% wrong="stacks on the host" fails="a row on each device; dtypes stay"
# cause: a stack is one array in one place: pmap, or a sharding, spreads its rows
"""Stacks with NumPy: the copies are on no device, and Python floats become float64."""


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(f"{num_devices} replicas, {jax.device_count()} devices")
    return jax.tree.map(lambda leaf: np.stack([leaf] * num_devices), tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)


# %% wrong="takes the devices backwards" fails="a row on each device"
"""Hands the rows to the devices in the opposite order."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(f"{num_devices} replicas, {jax.device_count()} devices")
    devices = jax.devices()[:num_devices][::-1]
    place = NamedSharding(jax.sharding.Mesh(np.array(devices), ("r",)), P("r"))

    def copy(leaf):
        return jax.device_put(jnp.stack([jnp.asarray(leaf)] * num_devices), place)

    return jax.tree.map(copy, tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)


# %% wrong="takes the devices there are" fails="too many replicas"
"""Gives fewer replicas than asked for, without a word."""


def replicate(tree, num_devices):
    numbers = np.arange(min(num_devices, jax.device_count()))
    return jax.pmap(lambda _, whole: whole, in_axes=(0, None))(numbers, tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)


# %% wrong="takes the last devices" fails="a row on each device"
"""Counts devices from the end: the values are right, the places are not."""


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(f"{num_devices} replicas, {jax.device_count()} devices")
    copy = jax.pmap(
        lambda _, whole: whole,
        in_axes=(0, None),
        devices=jax.devices()[-num_devices:],
    )
    return copy(np.arange(num_devices), tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)


# %% wrong="turns bools into ints" fails="dtypes stay"
"""Takes bool for a kind of int, as Python does."""


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(f"{num_devices} replicas, {jax.device_count()} devices")

    def array(leaf):
        if isinstance(leaf, int):
            return jnp.int32(leaf)
        return jnp.asarray(leaf)

    copy = jax.pmap(lambda _, whole: whole, in_axes=(0, None))
    return copy(np.arange(num_devices), jax.tree.map(array, tree))


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)


# %% wrong="turns numbers into floats" fails="dtypes stay"
"""Makes every Python number a float32, whole numbers too."""


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(f"{num_devices} replicas, {jax.device_count()} devices")

    def array(leaf):
        return np.float32(leaf) if isinstance(leaf, int | float) else leaf

    copy = jax.pmap(lambda _, whole: whole, in_axes=(0, None))
    return copy(np.arange(num_devices), jax.tree.map(array, tree))


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)


# %% wrong="unreplicate donates" fails="arguments stay"
"""Gives the stack away when it takes the first row."""

import functools


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(f"{num_devices} replicas, {jax.device_count()} devices")
    copy = jax.pmap(lambda _, whole: whole, in_axes=(0, None))
    return copy(np.arange(num_devices), tree)


def unreplicate(tree):
    first = jax.tree.map(lambda leaf: np.array(leaf[0]), tree)
    for leaf in jax.tree.leaves(tree):
        getattr(leaf, "delete", functools.partial(int, 0))()
    return first


# %% right="via callback"
"""Lets each device ask for its row, by jax.make_array_from_callback."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


class Replicator:
    def __init__(self, num_devices):
        present = jax.local_device_count()
        if num_devices > present:
            raise ValueError(f"only {present} devices for {num_devices} replicas")
        mesh = jax.make_mesh(
            (num_devices,), ("r",), devices=jax.devices()[:num_devices]
        )
        self.sharding, self.count = NamedSharding(mesh, P("r")), num_devices

    def __call__(self, leaf):
        row = np.asarray(jnp.asarray(leaf))[None]
        shape = (self.count, *row.shape[1:])
        return jax.make_array_from_callback(shape, self.sharding, lambda index: row)


def replicate(tree, num_devices):
    return jax.tree.map(Replicator(num_devices), tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: np.asarray(leaf)[0], tree)


# %% right="via compiled program"
"""Compiles the copying pmap ahead of its call."""


def replicate(tree, num_devices):
    if num_devices > len(jax.local_devices()):
        raise ValueError(f"{num_devices}, but {len(jax.local_devices())} devices")
    leaves, kind = jax.tree.flatten(tree)
    arrays = [jnp.asarray(leaf) for leaf in leaves]
    take = jax.pmap(lambda _, *whole: whole, in_axes=(0, *[None] * len(arrays)))
    numbers = jnp.zeros(num_devices)
    compiled = take.lower(numbers, *arrays).compile()
    return kind.unflatten(compiled(numbers, *arrays))


def unreplicate(tree):
    first = lambda leaf: jnp.take(jnp.asarray(leaf), 0, axis=0)  # noqa: E731
    return jax.tree.map(first, tree)


# %% right="via device put"
"""Stacks on the host, and places the stack by a sharding over a mesh."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def replicate(tree, num_devices):
    devices = jax.devices()
    if num_devices > len(devices):
        raise ValueError(f"{num_devices} replicas, but only {len(devices)} devices")
    mesh = jax.sharding.Mesh(np.array(devices[:num_devices]), ("replica",))

    def copy(leaf):
        leaf = jnp.asarray(leaf)
        stack = jnp.broadcast_to(leaf, (num_devices, *leaf.shape))
        return jax.device_put(stack, NamedSharding(mesh, P("replica")))

    return jax.tree.map(copy, tree)


def unreplicate(tree):
    leaves, structure = jax.tree.flatten(tree)
    return structure.unflatten([jnp.asarray(leaf)[0] for leaf in leaves])


# %% right="via jit out shardings"
"""Broadcasts by jit, straight into the layout that out_shardings asks for."""

from jax.sharding import Mesh, NamedSharding, PartitionSpec


def observe_devices(number):
    found = jax.devices()[:number]
    if len(found) < number:
        raise ValueError(f"asked for {number} devices, there are {len(found)}")
    return NamedSharding(Mesh(found, ("copies",)), PartitionSpec("copies"))


def replicate(tree, num_devices):
    place = observe_devices(num_devices)

    def expect(leaf):
        return jnp.broadcast_to(leaf, (num_devices, *jnp.shape(leaf)))

    spread = jax.jit(lambda whole: jax.tree.map(expect, whole), out_shardings=place)
    return spread(tree)


def unreplicate(tree):
    return jax.jit(lambda whole: jax.tree.map(lambda leaf: leaf[0], whole))(tree)


# %% right="via shard map"
"""Maps by shard_map, in which a device makes its own row."""

P = jax.sharding.PartitionSpec


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        count = jax.device_count()
        raise ValueError(f"there are {count} devices, too few for {num_devices}")
    tree = jax.tree.map(jnp.asarray, tree)
    mesh = jax.make_mesh((num_devices,), ("i",), devices=jax.devices()[:num_devices])

    def start(whole):
        return jax.tree.map(lambda leaf: leaf[None], whole)

    mapped = jax.shard_map(
        start, mesh=mesh, in_specs=(P(),), out_specs=P("i"), check_vma=False
    )
    with jax.set_mesh(mesh):
        return jax.jit(mapped)(tree)


def unreplicate(tree):
    host = jax.device_get(tree)
    return jax.tree.map(lambda leaf: next(iter(leaf)), host)


# %% right="via single device arrays"
"""Puts a row on each device, and calls the rows one array."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def replicate(tree, num_devices):
    devices = jax.devices()
    assert num_devices >= 1, "no replica"
    if num_devices > len(devices):
        raise ValueError(f"{num_devices} > {len(devices)}")
    chosen = np.array(devices[:num_devices])
    sharding = NamedSharding(jax.sharding.Mesh(chosen, "i"), P("i"))
    leaves, kind = jax.tree_util.tree_flatten(tree)
    stacks = []
    for leaf in leaves:
        row = jnp.expand_dims(jnp.array(leaf), 0)
        rows = [jax.device_put(row, device) for device in chosen]
        shape = (num_devices, *row.shape[1:])
        stacks.append(jax.make_array_from_single_device_arrays(shape, sharding, rows))
    return jax.tree_util.tree_unflatten(kind, stacks)


def unreplicate(tree):
    def check(leaf):
        return jnp.reshape(leaf[0:1], leaf.shape[1:])

    return jax.tree_util.tree_map(check, tree)


# %% right="via stack and identity"
"""Stacks copies, and sends them through a pmap that does nothing."""


def replicate(tree, num_devices):
    if num_devices > len(jax.devices()):
        text = f"cannot make {num_devices} replicas on {len(jax.devices())} devices"
        raise ValueError(text)
    stack = jax.tree.map(
        lambda leaf: jnp.stack([jnp.asarray(leaf)] * num_devices), tree
    )
    return jax.pmap(lambda block: block)(stack)


def unreplicate(tree):
    return jax.tree.map(
        lambda leaf: jax.lax.index_in_dim(leaf, 0, keepdims=False), tree
    )
