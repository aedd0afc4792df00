"""Annotations, names of the future, and a dataclass."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL

DOUBLE = """
import dataclasses
from typing import TypeVar

T = TypeVar("T", int, float)


@dataclasses.dataclass
class Doubled:
    value: "float | int"


def double(x: T) -> T:
    return Doubled(x + x).value
"""
NORMALIZE = """
def normalize(x: np.ndarray) -> np.ndarray:
    rows: int = len(x)
    if rows == 0:
        raise ValueError(f"{rows} rows")
    return x - x.mean(0)
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE, normalize=NORMALIZE)
