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
