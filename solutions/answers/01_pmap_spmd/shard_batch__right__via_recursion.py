"""Walks through the containers itself, and copies each dict with its class."""

import copy


def shard_batch(batch, num_devices):
    if batch is None:
        return None
    if isinstance(batch, dict):
        parts = copy.copy(batch)  # an ordered or a default dict stays one
        parts.update({k: shard_batch(part, num_devices) for k, part in batch.items()})
        return parts
    if isinstance(batch, list | tuple):
        parts = [shard_batch(part, num_devices) for part in batch]
        is_named = hasattr(batch, "_fields")
        return type(batch)(*parts) if is_named else type(batch)(parts)
    rows, rest = divmod(batch.shape[0], num_devices)
    if rest:
        raise ValueError(f"{batch.shape[0]} rows, {num_devices} devices: {rest} left")
    return batch.reshape((num_devices, rows, *batch.shape[1:]))
