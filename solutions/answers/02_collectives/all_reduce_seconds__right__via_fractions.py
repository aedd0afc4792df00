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
