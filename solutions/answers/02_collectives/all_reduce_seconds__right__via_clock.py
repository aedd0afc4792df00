"""Lets a clock run from message to message."""


class OutOfBounds(ValueError):
    pass


def insist(number, holds):
    if not holds:
        raise OutOfBounds(number)


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    insist(num_devices, num_devices >= 1)
    insist(bandwidth, bandwidth > 0)
    clock, sends = 0.0, 2 * (num_devices - 1)
    while sends:
        clock += latency + num_bytes / (num_devices * bandwidth)
        sends -= 1
    return clock
