"""Walks through the containers itself, and returns plain dicts for all dicts.

Told: none
Fails: the same tree
"""


def shard_batch(batch, num_devices):
    if batch is None:
        return None
    if isinstance(batch, dict):
        return {name: shard_batch(part, num_devices) for name, part in batch.items()}
    if isinstance(batch, list | tuple):
        parts = [shard_batch(part, num_devices) for part in batch]
        is_named = hasattr(batch, "_fields")
        return type(batch)(*parts) if is_named else type(batch)(parts)
    rows, rest = divmod(batch.shape[0], num_devices)
    if rest:
        raise ValueError(f"{batch.shape[0]} rows, {num_devices} devices: {rest} left")
    return batch.reshape((num_devices, rows, *batch.shape[1:]))
