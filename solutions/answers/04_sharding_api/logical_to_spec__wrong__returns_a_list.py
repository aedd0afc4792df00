"""Returns a list, in which param_specs would look for leaves.

Told: none
Fails: an entry per name; the first rule counts; a tree of arrays
"""


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
