"""Pairs sizes with entries, missing ones as None."""

import itertools


def predict_layout(shape, mesh_shape, spec):
    shard, distinct = [], 1
    for size, entry in itertools.zip_longest(shape, spec):
        parts = 1
        for name in [entry] if isinstance(entry, str) else entry or []:
            if name not in mesh_shape:
                raise ValueError(f"unknown axis: {name}")
            parts = parts * mesh_shape[name]
        if size % parts:
            raise ValueError(f"{size} / {parts} leaves a rest")
        shard.append(size // parts)
        distinct = distinct * parts
    return tuple(shard), distinct
