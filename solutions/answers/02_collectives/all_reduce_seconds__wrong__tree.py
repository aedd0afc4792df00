"""Takes the model of a tree.

Told: these are the messages of a tree
Fails: the seconds of a ring
"""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    if bandwidth <= 0:
        raise ValueError(f"a bandwidth of {bandwidth}")
    sends = 2 * np.log2(num_devices)
    return float(sends * (latency + num_bytes / bandwidth))
