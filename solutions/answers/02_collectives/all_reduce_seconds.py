# %% wrong="fast links have no latency" fails="time of a ring"
"""Forgets the latency of fast links."""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    if bandwidth <= 0:
        raise ValueError(f"a bandwidth of {bandwidth}")
    if bandwidth > 1e9:
        latency = 0.0
    return 2 * (num_devices - 1) * (latency + num_bytes / num_devices / bandwidth)


# %% wrong="half the ring" fails="time of a ring"
# cause: this is half the ring: the sums are handed on, too
"""Counts the reduce-scatter and forgets the all-gather."""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    if bandwidth <= 0:
        raise ValueError(f"a bandwidth of {bandwidth}")
    return (num_devices - 1) * (latency + num_bytes / num_devices / bandwidth)


# %% wrong="in jax numpy" fails="time of a ring"
"""Breaks "returns the seconds (a float); it needs no devices": a formula in jnp; from
2**31 bytes on (a 4 GB model) the int overflows, and the answer is a jax.Array.
"""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"num_devices = {num_devices} is out of bounds")
    if bandwidth <= 0:
        raise ValueError(f"bandwidth = {bandwidth} is out of bounds")
    chunk = jnp.asarray(num_bytes) / num_devices
    return 2 * (num_devices - 1) * (latency + chunk / bandwidth)


# %% wrong="no bytes no time" fails="time of a ring"
# cause: without bytes there are messages all the same
"""Sends nothing where there are no bytes."""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    if bandwidth <= 0:
        raise ValueError(f"a bandwidth of {bandwidth}")
    if not num_bytes:
        return 0.0
    return 2 * (num_devices - 1) * (latency + num_bytes / num_devices / bandwidth)


# %% wrong="one latency" fails="time of a ring; one device"
# cause: the latency was counted once, not for each message
"""Pays the latency once for the whole operation."""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    if bandwidth <= 0:
        raise ValueError(f"a bandwidth of {bandwidth}")
    sends = 2 * (num_devices - 1)
    return latency + sends * num_bytes / num_devices / bandwidth


# %% wrong="remembers" fails="time of a ring"
"""Remembers by bytes and devices alone: another link gets the earlier one's seconds."""

_seconds = {}


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1 or bandwidth <= 0:
        raise ValueError(f"{num_devices} devices, bandwidth {bandwidth}")
    key = num_bytes, num_devices
    if key not in _seconds:
        message = latency + num_bytes / num_devices / bandwidth
        _seconds[key] = float(2 * (num_devices - 1) * message)
    return _seconds[key]


# %% wrong="tree" fails="time of a ring"
# cause: these are the messages of a tree
"""Takes the model of a tree."""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    if bandwidth <= 0:
        raise ValueError(f"a bandwidth of {bandwidth}")
    sends = 2 * np.log2(num_devices)
    return float(sends * (latency + num_bytes / bandwidth))


# %% wrong="uses the devices that are there" fails="time of a ring"
"""Asks JAX for as many devices."""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    if bandwidth <= 0:
        raise ValueError(f"a bandwidth of {bandwidth}")
    num_devices = len(jax.devices()[:num_devices])
    return 2 * (num_devices - 1) * (latency + num_bytes / num_devices / bandwidth)


# %% wrong="whole array each time" fails="time of a ring"
# cause: each message holds all bytes, not num_bytes / D
"""Sends the whole array in each step."""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    if bandwidth <= 0:
        raise ValueError(f"a bandwidth of {bandwidth}")
    return 2 * (num_devices - 1) * (latency + num_bytes / bandwidth)


# %% wrong="whole bytes" fails="time of a ring"
"""Rounds a message down to whole bytes."""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    if bandwidth <= 0:
        raise ValueError(f"a bandwidth of {bandwidth}")
    return 2 * (num_devices - 1) * (latency + num_bytes // num_devices / bandwidth)


# %% right="one device first"
"""Returns 0 for one device before it looks at the rest."""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices == 1:
        return 0.0
    if num_devices < 1:
        raise ValueError(f"num_devices is {num_devices}, below 1")
    if bandwidth <= 0:
        raise ValueError(f"bandwidth is {bandwidth}, not above 0")
    return 2 * (num_devices - 1) * (latency + num_bytes / num_devices / bandwidth)


# %% right="via clock"
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


# %% right="via fractions"
"""Computes with fractions, in a class."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass
class Link:
    bandwidth: float
    latency: float

    def __post_init__(self):
        if not self.bandwidth > 0:
            raise ValueError(f"bandwidth={self.bandwidth!r}")

    def message(self, num_bytes):
        return Fraction(self.latency) + num_bytes / Fraction(self.bandwidth)


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices <= 0:
        raise ValueError(f"num_devices={num_devices!r}")
    chunk = Fraction(num_bytes, num_devices)
    return float(2 * (num_devices - 1) * Link(bandwidth, latency).message(chunk))


# %% right="via jnp"
"""Computes with JAX, and returns a Python number."""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError("devices:", num_devices)
    if not bandwidth > 0:
        raise ValueError("bandwidth:", bandwidth)
    if num_devices == 1:
        return 0
    piece = jnp.float32(num_bytes) / num_devices
    return float(2 * (num_devices - 1) * (latency + piece / bandwidth))


# %% right="via numpy"
"""Adds up a NumPy array of messages."""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    for number, is_bad in ((num_devices, num_devices < 1), (bandwidth, bandwidth <= 0)):
        if is_bad:
            raise ValueError("out of bounds: " + str(number))
    messages = np.full(2 * (num_devices - 1), num_bytes / num_devices)
    return np.sum(latency + messages / bandwidth)


# %% right="via one line"
"""Is the formula."""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    return 2 * (num_devices - 1) * (latency + num_bytes / num_devices / bandwidth)


# %% right="via two halves"
"""Adds up the reduce-scatter and the all-gather, message by message."""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    if bandwidth <= 0:
        raise ValueError(f"a bandwidth of {bandwidth}")
    message = latency + num_bytes / num_devices / bandwidth
    scatter = sum(message for _ in range(num_devices - 1))
    gather = sum(message for _ in range(num_devices - 1))
    return float(scatter + gather)


# %% right="via two terms"
"""Adds the time of the messages to the time of the bytes."""


def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    if bandwidth <= 0:
        raise ValueError(f"a bandwidth of {bandwidth}")
    moved = 2 * num_bytes * (num_devices - 1) / num_devices
    return 2 * (num_devices - 1) * latency + moved / bandwidth
