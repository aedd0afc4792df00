# %% wrong="compares by identity" fails="one entry per axis"
"""Asks whether two names are one object, not whether they are equal."""


def logical_to_spec(names, rules):
    spec, used = [], []
    for name in names:
        axes = None
        for rule, a in rules:
            if rule is name and name is not None:
                axes = a
                break
        for axis in (axes,) if isinstance(axes, str) else axes or ():
            if axis in used:
                raise ValueError(axis)
            used.append(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda n: logical_to_spec(n, rules),
        tree,
        is_leaf=lambda n: isinstance(n, tuple),
    )


# %% wrong="drops the second use" fails="no mesh axis twice"
"""Leaves an axis out that is in use, without a word: right on one device, more memory
than planned on eight.
"""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        for axis in [axes] if isinstance(axes, str) else axes or []:
            if axis in used:
                axes = None
                continue
            used.add(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )


# %% wrong="flat trees only" fails="no mesh axis twice; whole trees"
"""Goes through one dict, though trees are nested."""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        for axis in [axes] if isinstance(axes, str) else axes or []:
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used.add(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return {name: logical_to_spec(names, rules) for name, names in tree.items()}


# %% wrong="forbids a name twice" fails="no rule, not sharded; no mesh axis twice"
"""Forbids a name that occurs twice, whatever the rules say of it."""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        if name is not None and names.count(name) > 1:
            raise ValueError(f"{name} stands twice, for {axes}")
        for axis in [axes] if isinstance(axes, str) else axes or []:
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used.add(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )


# %% wrong="ignores case" fails="one entry per axis"
"""Takes names for the same that differ in case."""


def logical_to_spec(names, rules):
    spec, used = [], []
    for name in names:
        axes = next((a for r, a in rules if name and r.lower() == name.lower()), None)
        for axis in (axes,) if isinstance(axes, str) else axes or ():
            if axis in used:
                raise ValueError(axis)
            used.append(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda n: logical_to_spec(n, rules),
        tree,
        is_leaf=lambda n: isinstance(n, tuple),
    )


# %% wrong="last rule wins" fails="first rule wins"
# cause: the last rule with the name was taken
"""Makes a dict of the rules, in which later ones replace earlier ones."""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = dict(rules).get(name)
        for axis in [axes] if isinstance(axes, str) else axes or []:
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used.add(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )


# %% wrong="leaf begins with a name" fails="whole trees"
"""Takes a tuple for a leaf only where it begins with a name: (None, "embed") is none."""


def logical_to_spec(names, rules):
    spec, used = [], []
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        for axis in (axes,) if isinstance(axes, str) else axes or ():
            if axis in used:
                raise ValueError(f"The mesh axis {axis!r} is used twice.")
            used.append(axis)
        spec.append(axes)
    return tuple(spec)


def is_names(node):
    return isinstance(node, tuple) and all(isinstance(name, str) for name in node[:1])


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules), tree, is_leaf=is_names
    )


# %% wrong="letters of an axis" fails="first rule wins; no mesh axis twice"
"""Looks for an axis inside the names in use: x is found in xy."""


def logical_to_spec(names, rules):
    spec, used = [], ""
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        for axis in [axes] if isinstance(axes, str) else axes or []:
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used += f"{axis} "
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )


# %% wrong="lists become tuples" fails="whole trees"
"""Makes tuples of a tree's lists, in which nobody finds the leaves again."""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        for axis in [axes] if isinstance(axes, str) else axes or []:
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used.add(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    if isinstance(tree, tuple):
        return logical_to_spec(tree, rules)
    if isinstance(tree, dict):
        return {name: param_specs(node, rules) for name, node in tree.items()}
    return tuple(param_specs(node, rules) for node in tree)


# %% wrong="names by their beginning" fails="one entry per axis"
"""Finds a rule by how the name begins."""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        matches = (a for rule, a in rules if name and name.startswith(rule))
        axes = next(matches, None)
        for axis in [axes] if isinstance(axes, str) else axes or []:
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used.add(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )


# %% wrong="one use per tree" fails="whole trees"
"""Forbids a mesh axis in a second array as well."""


def translate(names, rules, used):
    spec = []
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        for axis in (axes,) if isinstance(axes, str) else axes or ():
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used.append(axis)
        spec.append(axes)
    return tuple(spec)


def logical_to_spec(names, rules):
    return translate(names, rules, [])


def param_specs(tree, rules):
    used = []
    return jax.tree.map(
        lambda names: translate(names, rules, used),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )


# %% wrong="prefix match" fails="one entry per axis"
"""Takes a rule whose name begins with the name."""


def logical_to_spec(names, rules):
    used, spec = [], []
    for name in names:
        axes = None
        if name is not None:
            axes = next((axes for rule, axes in rules if rule.startswith(name)), None)
        for axis in (
            axes if isinstance(axes, tuple) else () if axes is None else (axes,)
        ):
            if axis in used:
                raise ValueError(f"mesh axis {axis!r} is used twice")
            used.append(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules),
        tree,
        is_leaf=lambda n: isinstance(n, tuple),
    )


# %% wrong="returns a list" fails="whole trees"
"""Returns a list, in which param_specs would look for leaves."""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        for axis in [axes] if isinstance(axes, str) else axes or []:
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used.add(axis)
        spec.append(axes)
    return spec


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )


# %% wrong="skips rules that say none" fails="first rule wins"
# cause: a rule that says None was passed over
"""Goes on to a later rule where the first one says None."""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = next(
            (axes for rule, axes in rules if rule == name and axes is not None), None
        )
        for axis in [axes] if isinstance(axes, str) else axes or []:
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used.add(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )


# %% wrong="tuples are not compared" fails="no mesh axis twice"
# cause: an axis in a tuple is used as well
"""Compares whole entries: an axis in use inside a tuple, or a tuple of such, passes."""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        if isinstance(axes, str) and axes in used:
            raise ValueError(f"{axes} is used twice")
        used.update([axes] if isinstance(axes, str) else axes or [])
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )


# %% wrong="tuples are not looked into" fails="no mesh axis twice"
# cause: an axis in a tuple is used as well
"""Compares whole entries: an axis inside a tuple is not seen."""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        for axis in [axes] if axes else []:
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used.add(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )


# %% wrong="unknown names fail" fails="no rule, not sharded; no mesh axis twice; whole trees"
"""Demands a rule forevery name."""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = next(axes for rule, axes in rules if rule == name)
        for axis in [axes] if isinstance(axes, str) else axes or []:
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used.add(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )


# %% wrong="writes into the tree" fails="arguments stay"
"""Writes the specs into the caller's tree."""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        for axis in [axes] if isinstance(axes, str) else axes or []:
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used.add(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    if isinstance(tree, tuple):
        return logical_to_spec(tree, rules)
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        tree[key] = param_specs(tree[key], rules)
    return tree


# %% right="via class"
"""Keeps the rules in an object, and helpers with the names of the check's own."""

import collections


class check:
    def __init__(self, rules):
        self.table = collections.OrderedDict()
        for name, axes in rules:
            if name not in self.table:
                self.table[name] = axes

    def cases(self, names):
        count = collections.Counter()
        for name in names:
            axes = self.table.get(name)
            count.update([axes] if isinstance(axes, str) else axes or [])
            yield axes
        for axis, times in count.items():
            if times > 1:
                raise ValueError(f"mesh axis '{axis}' is used {times} times")


def logical_to_spec(names, rules):
    return tuple(check(rules).cases(names))


def param_specs(tree, rules):
    if isinstance(tree, tuple):
        return logical_to_spec(tree, rules)
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    done = [(key, param_specs(value, rules)) for key, value in pairs]
    return dict(done) if isinstance(tree, dict) else [value for _, value in done]


# %% right="via dict"
"""Makes a dict of the rules, backwards, so that the first one stays."""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = dict(reversed(rules)).get(name)
        for axis in [axes] if isinstance(axes, str) else axes or []:
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used.add(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )


# %% right="via flatten"
"""Flattens the tree, translates its leaves, and puts it together again."""


def logical_to_spec(names, rules):
    def found(name):
        matches = [axes for rule, axes in rules if rule == name]
        return matches[0] if matches else None

    spec = tuple(map(found, names))
    flat = [
        a for axes in spec for a in ([axes] if isinstance(axes, str) else axes or [])
    ]
    twice = sorted({axis for axis in flat if flat.count(axis) > 1})
    if twice:
        raise ValueError("used twice: " + ", ".join(twice))
    return spec


def param_specs(tree, rules):
    leaves, structure = jax.tree.flatten(tree, is_leaf=lambda n: type(n) is tuple)
    return jax.tree.unflatten(structure, [logical_to_spec(n, rules) for n in leaves])


# %% right="via for and break"
"""Searches with loops, and checks each entry against the entries before it."""


def used_by(axes):
    if axes is None:
        return set()
    return {axes} if isinstance(axes, str) else set(axes)


def logical_to_spec(names, rules):
    spec = ()
    for name in names:
        axes = None
        for rule, meaning in rules:
            if name is not None and rule == name:
                axes = meaning
                break
        if isinstance(axes, tuple) and len(used_by(axes)) < len(axes):
            raise ValueError(f"a mesh axis is used twice in {axes}")
        for earlier in spec:
            both = used_by(earlier) & used_by(axes)
            if both:
                raise ValueError(f"mesh axis {both.pop()} is used twice in {names}")
        spec += (axes,)
    return spec


def param_specs(tree, rules):
    match tree:
        case tuple():
            return logical_to_spec(tree, rules)
        case dict():
            return dict(zip(tree, param_specs([*tree.values()], rules), strict=True))
        case _:
            return [param_specs(node, rules) for node in tree]


# %% right="via partition spec"
"""Lets JAX's own sharding refuse an axis that is used twice."""

from jax.sharding import AbstractMesh


def logical_to_spec(names, rules):
    table = {}
    for name, axes in rules:
        table.setdefault(name, axes)
    spec = tuple(table.get(name) for name in names)
    flat = [
        n for axes in spec for n in ((axes,) if isinstance(axes, str) else axes or ())
    ]
    every = tuple(dict.fromkeys(flat))
    try:
        NamedSharding(AbstractMesh((1,) * len(every), every), P(*spec))
    except Exception as error:
        raise ValueError(str(error)) from error
    return spec


def param_specs(tree, rules):
    translate = functools.partial(logical_to_spec, rules=rules)
    return jax.tree_util.tree_map(
        translate, tree, is_leaf=lambda node: isinstance(node, tuple)
    )


# %% right="via recursion"
"""Walks through the tree by hand."""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        for axis in [axes] if isinstance(axes, str) else axes or []:
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used.add(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    if isinstance(tree, tuple):
        return logical_to_spec(tree, rules)
    if isinstance(tree, dict):
        return {name: param_specs(node, rules) for name, node in tree.items()}
    return [param_specs(node, rules) for node in tree]


# %% right="via setdefault"
"""Makes a dict of the first rules, and counts axes at the end."""


def logical_to_spec(names, rules):
    table = {}
    for k, v in rules:
        table.setdefault(k, v)
    spec = tuple(table.get(n) for n in names)
    flat = [a for s in spec if s for a in ((s,) if isinstance(s, str) else s)]
    for a in flat:
        if flat.count(a) > 1:
            raise ValueError(f"mesh axis {a} twice")
    return spec


def param_specs(tree, rules):
    if isinstance(tree, tuple):
        return logical_to_spec(tree, rules)
    if isinstance(tree, list):
        return [param_specs(t, rules) for t in tree]
    return {k: param_specs(t, rules) for k, t in tree.items()}


# %% right="unpacks tuples of one"
"""A tuple of one mesh axis becomes that axis."""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        axes = (axes,) if isinstance(axes, str) else axes or ()
        for axis in axes:
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used.add(axis)
        spec.append(axes[0] if len(axes) == 1 else axes or None)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )


# %% wrong="twice in one rule" fails="no mesh axis twice"
"""Compares a rule's axes with earlier ones, and not with one another."""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = next((a for r, a in rules if r == name), None)
        mine = set() if axes is None else {axes} if isinstance(axes, str) else set(axes)
        if mine & used:
            raise ValueError("twice")
        used |= mine
        spec.append(axes)
    return tuple(spec)
