"""Measures the class report: `python tools/benchmarks/report.py 2000`.

Each of so many learners submits our answers to lesson 2, a quarter of them as others do
and the rest changed, and fails some statements with drawn layouts.
"""

import random
import resource
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), f"{Path(__file__).parents[2]}/lessons"]

import nbformat

from coursekit.outcomes import FAILS, HOLDS
from grader import ROOT
from grader.lessons.release import exercises
from grader.pages.class_report import ClassReport
from grader.results import ExerciseResult, Outcome, Result, StatementResult

LESSON = "02_collectives"
PARTS = tuple((device, ((device, device + 1), (0, 64))) for device in range(8))


def result(number: int, sources: dict[str, str], rng: random.Random) -> Result:
    def statement(place: int) -> StatementResult:
        said = f"The result is wrong on {rng.randrange(8)} of 8 devices."
        rows, layouts = (("seen", "0.0 " * 200),), ((8, 64), PARTS, PARTS)
        standing = rng.choice([HOLDS, HOLDS, FAILS])
        return StatementResult(
            f"statement {place}", place == 0, 0.1, standing, said, rows, layouts
        )

    found = []
    for name, source in sources.items():
        own = number if rng.random() < 0.75 else rng.randrange(40)
        found.append(
            ExerciseResult(
                name,
                Outcome.FAILED,
                0,
                2,
                statements=tuple(map(statement, range(6))),
                message="The result is wrong.",
                source=f"{source}\n\n\ndef own():\n    return {own}\n",
            )
        )
    return Result(LESSON, tuple(found))


def measured(num_learners: int) -> dict[str, float]:
    """Makes the report; returns its CPU seconds, its MiB and its page's kilobytes."""
    lesson = nbformat.read(ROOT / "solutions" / f"{LESSON}.ipynb", as_version=4)
    sources = {name: cell.source for name, cell in exercises(lesson).items()}
    report, rng = (
        ClassReport(LESSON, title=LESSON, solutions=sources, names={}),
        random.Random(0),
    )
    seconds, before = 0.0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(num_learners):
        one = result(number, sources, rng)
        begun = time.process_time()
        report.add(f"learner-{number:05}", one)
        seconds += time.process_time() - begun
    begun = time.process_time()
    page = report.page()
    seconds += time.process_time() - begun
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "learners": num_learners,
        "exercises": len(sources),
        "cpu_s": seconds,
        "mib": (after - before) / 1024,
        "kb": len(page.encode()) / 1000,
    }


if __name__ == "__main__":
    print(measured(int(sys.argv[1]) if len(sys.argv) > 1 else 2000))
