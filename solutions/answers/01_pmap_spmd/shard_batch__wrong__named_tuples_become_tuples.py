"""Rebuilds each sequence as a plain list or tuple.

Told: none
Fails: the same tree
"""


def shard_batch(batch, num_devices):
    if isinstance(batch, dict):
        return {name: shard_batch(part, num_devices) for name, part in batch.items()}
    if isinstance(batch, list):
        return [shard_batch(part, num_devices) for part in batch]
    if isinstance(batch, tuple):
        return tuple(shard_batch(part, num_devices) for part in batch)
    if batch is None:
        return None
    if len(batch) % num_devices:
        raise ValueError(f"{len(batch)} rows, {num_devices} devices")
    return batch.reshape(num_devices, len(batch) // num_devices, *batch.shape[1:])
