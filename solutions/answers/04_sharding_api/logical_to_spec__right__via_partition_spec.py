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
