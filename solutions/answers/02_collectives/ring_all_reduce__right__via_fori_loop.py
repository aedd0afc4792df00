"""Lets two compiled loops do the sends."""


def ring_all_reduce(x, axis_name):
    num_devices, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows, {num_devices} devices")
    pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    chunks = x.reshape(num_devices, -1, *x.shape[1:])

    def send(step, chunks):
        return lax.ppermute(chunks[(me - step) % num_devices], axis_name, pairs)

    def add(step, chunks):
        return chunks.at[(me - step - 1) % num_devices].add(send(step, chunks))

    def hand_on(step, chunks):
        return chunks.at[(me - step) % num_devices].set(send(step - 1, chunks))

    chunks = lax.fori_loop(0, num_devices - 1, add, chunks)
    return lax.fori_loop(0, num_devices - 1, hand_on, chunks).reshape(x.shape)
