"""Adds up a NumPy array of messages."""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    for number, is_bad in ((num_devices, num_devices < 1), (bandwidth, bandwidth <= 0)):
        if is_bad:
            raise ValueError("out of bounds: " + str(number))
    messages = np.full(2 * (num_devices - 1), num_bytes / num_devices)
    return np.sum(latency + messages / bandwidth)
