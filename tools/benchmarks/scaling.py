"""Measures how grading on a Dask cluster scales from one processor to two.

Run `python tools/benchmarks/scaling.py` on a machine of two processors or more that
does nothing else; it takes about ten minutes. A cluster of one worker on one processor
and one of two workers on two grade the same class; scheduler and gradebook run on the
same processors. It prints seconds, CPU seconds and the parallel efficiency: the
speed-up divided by two.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import grading

BOUND = "import os\nos.sched_setaffinity(0, {})"


def measured(top: Path, submissions: int) -> list[float]:
    """Grades so many submissions a lesson, on one processor and on two: seconds."""
    processors = sorted(os.sched_getaffinity(0))[:2]
    if len(processors) < 2:
        sys.exit("This machine lets us use one processor; it takes two.")
    kinds = ("solved", "half", "wrong")  # who sleeps, sleeps anywhere
    sources = [path.with_suffix(".py") for path in grading.lesson_paths()]
    took = []
    for count in (1, 2):
        folder = top / str(count)
        lessons = grading.write_class(folder, sources, submissions, kinds=kinds)
        grading.fill_caches(lessons)
        bound = BOUND.format(processors[:count])
        cluster = "--scheduler", "local", "--workers", str(count)
        seconds, cpu, _ = grading.timed(
            lambda f=folder, b=bound, c=cluster: grading.ours(f, b, *c)
        )
        took.append(seconds)
        print(f"workers: {count} {seconds:8.1f} s {cpu:8.1f} CPU s", flush=True)
    return took


def main() -> None:
    """Prints the figures, with the target beside them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--submissions", type=int, default=10, help="per lesson")
    with tempfile.TemporaryDirectory(prefix="class-") as top:
        one, two = measured(Path(top), parser.parse_args().submissions)
    print(f"efficiency {one / two / 2:.2f}  target >= 0.9")


if __name__ == "__main__":
    main()
