# %% wrong="tensor parallelism across nodes" fails="least between nodes"
# cause: tensor parallelism between nodes sends activations there
"""Splits the hidden units between the nodes: activations cross the network."""


def choose_layout(shapes, nodes, gpus, memory):
    needed = 16 * sum(map(math.prod, shapes.values()))
    if needed > nodes * gpus * memory:
        raise ValueError("it does not fit")
    rules = {"batch": "gpu", "embed": "gpu", "hidden": "node"}
    return {"node": nodes, "gpu": gpus}, rules


# %% wrong="replicated optimizer" fails="fits; too large"
# cause: weights, gradients and both moments count: 16 bytes for each number
"""Counts weights and gradients alone, as if the moments took nothing."""


def choose_layout(shapes, nodes, gpus, memory):
    needed = 8 * sum(map(math.prod, shapes.values()))
    for used in range(1, nodes + 1):
        if nodes % used == 0 and needed <= used * gpus * memory:
            axes = {"replica": nodes // used, "shard": used * gpus}
            return axes, {"batch": ("replica", "shard"), "embed": "shard"}
    raise ValueError("it does not fit")


# %% wrong="does not fit" fails="fits; least between nodes; too large"
# cause: nothing shards the weights
"""Replicates the state, as in data parallelism, whatever it needs."""


def choose_layout(shapes, nodes, gpus, memory):
    return {"data": nodes * gpus}, {"batch": "data"}


# %% wrong="FSDP over all devices" fails="least between nodes"
# cause: fewer nodes could hold a copy of the weights
"""Shards the weights over all devices: it always fits, and sends the most."""


def choose_layout(shapes, nodes, gpus, memory):
    if 16 * sum(map(math.prod, shapes.values())) > nodes * gpus * memory:
        raise ValueError("it does not fit")
    return {"data": nodes * gpus}, {"batch": "data", "embed": "data"}


# %% wrong="HSDP always" fails="fits; too large"
# cause: the GPUs of one node do not hold a copy of the weights here
"""Keeps a copy in every node, also where it does not fit."""


def choose_layout(shapes, nodes, gpus, memory):
    rules = {"batch": ("node", "gpu"), "embed": "gpu"}
    return {"node": nodes, "gpu": gpus}, rules


# %% wrong="HSDP or nothing" fails="fits; least between nodes; all devices work"
"""Gives up where a single node is too small."""


def choose_layout(shapes, nodes, gpus, memory):
    if 16 * sum(map(math.prod, shapes.values())) > gpus * memory:
        raise ValueError("it does not fit into a node")
    rules = {"batch": ("node", "gpu"), "embed": "gpu"}
    return {"node": nodes, "gpu": gpus}, rules


# %% wrong="axes swapped" fails="least between nodes"
# cause: the groups cross the nodes: the last axis of a mesh is within one
"""Makes the groups that hold a copy of one GPU of each node."""


def choose_layout(shapes, nodes, gpus, memory):
    needed = 16 * sum(map(math.prod, shapes.values()))
    for shards in (gpus, nodes, nodes * gpus):
        if needed <= shards * memory:
            axes = {"shard": shards, "replica": nodes * gpus // shards}
            return axes, {"batch": ("replica", "shard"), "embed": "shard"}
    raise ValueError("it does not fit")


# %% wrong="one node computes" fails="all devices work"
"""Shards the batch within the nodes alone: all nodes compute the same."""


def choose_layout(shapes, nodes, gpus, memory):
    for used in range(1, nodes + 1):
        axes = {"replica": nodes // used, "shard": used * gpus}
        rules = {"batch": "shard", "embed": "shard"}
        needed = 16 * sum(map(math.prod, shapes.values()))
        if nodes % used == 0 and needed <= used * gpus * memory:
            return axes, rules
    raise ValueError("it does not fit")


# %% wrong="no limit" fails="too large"
"""Returns the layout over all devices where even that does not fit."""


def choose_layout(shapes, nodes, gpus, memory):
    for used in range(1, nodes + 1):
        axes = {"replica": nodes // used, "shard": used * gpus}
        rules = {"batch": ("replica", "shard"), "embed": "shard"}
        needed = 16 * sum(map(math.prod, shapes.values()))
        if nodes % used == 0 and needed <= used * gpus * memory:
            break
    return axes, rules


# %% wrong="remembers the first" fails="fits; too large"
"""Chooses once for each shape of model and cluster, whatever the memory is."""

chosen = {}


def choose_layout(shapes, nodes, gpus, memory):
    key = shapes["w1"], nodes, gpus
    needed = 16 * sum(map(math.prod, shapes.values()))
    for used in range(1, nodes + 1):
        axes = {"replica": nodes // used, "shard": used * gpus}
        rules = {"batch": ("replica", "shard"), "embed": "shard"}
        if nodes % used == 0 and needed <= used * gpus * memory:
            return chosen.setdefault(key, (axes, rules))
    if key in chosen:
        return chosen[key]
    raise ValueError("it does not fit")


# %% wrong="takes the shapes out" fails="arguments stay"
"""Empties its caller's dict of shapes."""


def choose_layout(shapes, nodes, gpus, memory):
    needed = 0
    while shapes:
        needed += 16 * math.prod(shapes.popitem()[1])
    for used in range(1, nodes + 1):
        if nodes % used == 0 and needed <= used * gpus * memory:
            axes = {"replica": nodes // used, "shard": used * gpus}
            return axes, {"batch": ("replica", "shard"), "embed": "shard"}
    raise ValueError("it does not fit")


# %% right="by arithmetic alone"
"""Divides instead of asking predict_layout."""


def choose_layout(shapes, nodes, gpus, memory):
    needed = 16 * sum(map(math.prod, shapes.values()))
    for used in range(1, nodes + 1):
        if nodes % used == 0 and needed <= used * gpus * memory:
            axes = {"copy": nodes // used, "shard": used * gpus}
            return axes, {"batch": ("copy", "shard"), "embed": "shard"}
    raise ValueError("it does not fit")


# %% right="hidden in place of embed"
"""Shards the weights along the hidden units: FSDP cuts either axis."""


def choose_layout(shapes, nodes, gpus, memory):
    needed = 16 * sum(map(math.prod, shapes.values()))
    for used in range(1, nodes + 1):
        if nodes % used == 0 and needed <= used * gpus * memory:
            axes = {"copy": nodes // used, "shard": used * gpus}
            return axes, {"batch": ["copy", "shard"], "hidden": "shard"}
    raise ValueError("it does not fit")


# %% right="three axes"
"""Writes nodes of a copy and GPUs of a node as axes of their own."""


def choose_layout(shapes, nodes, gpus, memory):
    needed = 16 * sum(map(math.prod, shapes.values()))
    used = next(
        (
            used
            for used in range(1, nodes + 1)
            if nodes % used == 0 and needed <= used * gpus * memory
        ),
        None,
    )
    if used is None:
        raise ValueError(f"{needed} bytes do not fit")
    axes = {"dcn": nodes // used, "node": used, "gpu": gpus}
    return axes, {"batch": ("dcn", "node", "gpu"), "embed": ("node", "gpu")}


# %% right="replicates what fits"
"""Data parallelism where a GPU holds everything: it sends as little between nodes."""


def choose_layout(shapes, nodes, gpus, memory):
    needed = 16 * sum(map(math.prod, shapes.values()))
    if needed <= memory:
        return {"data": nodes * gpus}, {"batch": "data"}
    for used in range(1, nodes + 1):
        if nodes % used == 0 and needed <= used * gpus * memory:
            axes = {"copy": nodes // used, "shard": used * gpus}
            return axes, {"batch": ("copy", "shard"), "embed": "shard"}
    raise ValueError("it does not fit")


# %% right="by search"
"""Collects all groups of whole nodes that fit, and takes the smallest."""


def choose_layout(shapes, nodes, gpus, memory):
    rules = {"batch": ("copy", "shard"), "embed": "shard", "hidden": None}
    found = []
    for copies in (n for n in range(1, nodes + 1) if nodes % n == 0):
        axes = {"copy": copies, "shard": nodes // copies * gpus}
        held = 0
        for name, spec in specs_by(rules).items():
            block, _ = predict_layout(shapes[name], axes, spec)
            held += 16 * math.prod(block)
        if held <= memory:
            found.append(axes)
    if not found:
        raise ValueError("no layout fits")
    return min(found, key=lambda axes: axes["shard"]), rules


# %% right="tensor parallelism in the node"
"""Megatron within the node, data parallel between: as little between nodes."""


def choose_layout(shapes, nodes, gpus, memory):
    needed = 16 * sum(map(math.prod, shapes.values()))
    for used in range(1, nodes + 1):
        if nodes % used == 0 and needed <= used * gpus * memory:
            if used == 1:
                return {"data": nodes, "model": gpus}, {
                    "batch": "data",
                    "hidden": "model",
                }
            axes = {"copy": nodes // used, "shard": used * gpus}
            return axes, {"batch": ("copy", "shard"), "embed": "shard"}
    raise ValueError("it does not fit")


# %% wrong="forgets the gradients" fails="fits; too large"
# cause: weights, gradients and both moments count: 16 bytes for each number
"""Counts 12 bytes for every number."""


def choose_layout(shapes, nodes, gpus, memory):
    needed = 12 * sum(map(math.prod, shapes.values()))
    for used in range(1, nodes + 1):
        if nodes % used == 0 and needed <= used * gpus * memory:
            axes = {"replica": nodes // used, "shard": used * gpus}
            return axes, {"batch": ("replica", "shard"), "embed": "shard"}
    raise ValueError("it does not fit")


# %% wrong="as few nodes as hold a copy" fails="least between nodes; all devices work"
"""Takes the fewest nodes, and leaves out those that fill no other group."""


def choose_layout(shapes, nodes, gpus, memory):
    needed = 16 * sum(map(math.prod, shapes.values()))
    used = math.ceil(needed / (gpus * memory))
    if used > nodes:
        raise ValueError("it does not fit")
    axes = {"replica": nodes // used, "shard": used * gpus}
    return axes, {"batch": ("replica", "shard"), "embed": "shard"}


# %% wrong="batch over the nodes alone" fails="least between nodes"
# cause: the batch is not sharded over the axis that shards the weights
"""Leaves the batch whole within a group: the compiler sends activations."""


def choose_layout(shapes, nodes, gpus, memory):
    needed = 16 * sum(map(math.prod, shapes.values()))
    for used in range(1, nodes + 1):
        if nodes % used == 0 and needed <= used * gpus * memory:
            axes = {"replica": nodes // used, "shard": used * gpus}
            return axes, {"batch": "replica", "embed": "shard"}
    raise ValueError("it does not fit")
