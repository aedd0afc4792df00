"""Rebuilds each dict by its class: a default dict's takes its factory first.

Told: none
Fails: the same tree
"""


def shard_batch(batch, num_devices):
    if isinstance(batch, dict):
        return type(batch)((k, shard_batch(v, num_devices)) for k, v in batch.items())
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(shard_batch(v, num_devices) for v in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(shard_batch(v, num_devices) for v in batch)
    rows = batch.shape[0]
    if rows % num_devices:
        raise ValueError(f"B = {rows} does not divide by num_devices = {num_devices}")
    return batch.reshape(num_devices, rows // num_devices, *batch.shape[1:])
