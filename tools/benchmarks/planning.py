"""Measures what grading costs per lesson, and in a large course.

Run `python tools/benchmarks/planning.py` on a machine that does nothing else; it takes
about five minutes. One worker grades submissions of each lesson, contained and judged:
solved ones, half solved ones and wrong ones. Printed are, as a table in Markdown,

- the mean seconds and CPU seconds of a submission, once the judge is warm;
- the worker's peak memory: learner's processes, judge and fork server, with what they
  share divided among them;
- core-hours for 10,000 learners (`--learners N`) who submit every lesson once.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent))

from grading import KINDS, busy_seconds, fill_caches, timed, write_class

from grader.authoring.release import lesson_paths
from grader.classroom.folder import Classroom
from grader.containment.limits import Limits
from grader.workers.cache_key import lesson_hashes
from grader.workers.executor import grade_jobs
from grader.workers.jobs import job_of
from grader.workers.local_executor import LocalExecutor

LOOK_EVERY_S = 0.25


class Memory(threading.Thread):
    """Watches the memory of all processes that this one has started."""

    def __init__(self):
        super().__init__(daemon=True)
        self.peak, self.used, self.done = 0, 0.0, threading.Event()

    def run(self) -> None:
        """Measures until `stop`; `used` are the CPU seconds of measuring."""
        while not self.done.wait(LOOK_EVERY_S):
            self.peak = max(self.peak, sum(self.shares()))
            self.used = time.thread_time()

    @staticmethod
    def shares() -> Iterator[int]:
        """Yields each process's bytes, and its part of what it shares."""
        for process in psutil.Process().children(recursive=True):
            try:
                yield process.memory_full_info().pss
            except psutil.Error:  # it has ended
                pass

    def stop(self) -> float:
        """Returns the peak in MiB."""
        self.done.set()
        self.join()
        return self.peak / 2**20


def measured(name: str, classroom: Classroom) -> tuple[float, float, float]:
    """Grades a lesson's submissions: (seconds, CPU seconds, peak MiB) of one."""
    lesson = classroom.lessons[name]
    hashes = lesson_hashes(lesson, Limits())
    jobs = [
        job_of(one.student, name, one.folder, hashes)
        for one in classroom.submissions()
        if one.lesson == name and not one.student.startswith("slow")
    ]
    with contextlib.closing(LocalExecutor({name: lesson}, Limits())) as executor:
        list(grade_jobs(executor, jobs[:1]))  # starts the fork server and the judge
        memory = Memory()
        memory.start()
        finished = grade_jobs(executor, jobs)
        next(finished)
        looked = memory.used
        seconds, cpu, rest = timed(lambda: list(finished))
        peak = memory.stop()
    return seconds / len(rest), (cpu - memory.used + looked) / len(rest), peak


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--learners", type=int, default=10_000)
    parser.add_argument("--submissions", type=int, default=3 * len(KINDS))
    options = parser.parse_args()
    sources = [path.with_suffix(".py") for path in lesson_paths()]
    used = busy_seconds()
    with tempfile.TemporaryDirectory(prefix="class-") as top:
        lessons = write_class(Path(top), sources, options.submissions)
        fill_caches(lessons)
        print(
            f"(once per machine, to fill the cache: {busy_seconds() - used:.0f} CPU s)"
        )
        print("| lesson | seconds | CPU seconds | peak memory, MiB |")
        print("|---|---|---|---|")
        total = 0.0
        for name in lessons:
            seconds, cpu, peak = measured(name, Classroom(Path(top)))
            total += cpu
            print(f"| {name} | {seconds:.1f} | {cpu:.1f} | {peak:.0f} |", flush=True)
    hours = total * options.learners / 3600
    print(
        f"\n{options.learners:,} learners x {len(lessons)} lessons: {hours:.0f} core-h"
    )


if __name__ == "__main__":
    main()
