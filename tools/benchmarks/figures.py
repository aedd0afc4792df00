"""Measures the figures of docs/grading-at-scale.md and docs/comparison.md.

Run `python tools/benchmarks/figures.py` on a machine of two cores that does nothing
else; it takes about seven minutes. It writes docs/figures.json, and from that the
figures in both pages. It measures these parts, or those that are named:

- report: the class report of 2,000 learners;
- lessons: what a submission of each lesson costs once the judge is warm, graded by one
  worker; the peak memory is that of learner's processes, judge and fork server, with
  what they share divided among them;
- class: 20 submissions of all lessons, graded by `python -m grader grade`.

Three more are measured only if they are named; what the pages say of the others stays:

- stock: the same class by stock nbgrader, alone and two side by side, after ours, which
  is measured again (twenty minutes);
- levers: lesson 5 without each thing that makes grading fast (five minutes);
- cluster: a Dask cluster of one processor and one of two (ten minutes).
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent))

import grading
import report
import scaling
from grading import KINDS, LEVERS, ROOT, fill_caches, ours, timed, write_class

from grader.atomic_files import write
from grader.classroom.folder import SEED, Classroom
from grader.containment.limits import Limits
from grader.lessons.release import lesson_paths
from grader.workers.cache_key import lesson_hashes
from grader.workers.executor import grade_jobs
from grader.workers.jobs import job_of
from grader.workers.local_executor import LocalExecutor

FILE = ROOT / "docs" / "figures.json"
PAGES = (ROOT / "docs/grading-at-scale.md", ROOT / "docs/comparison.md")
BLOCK = re.compile(r"(?s)(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)")
BUSY = ("solved", "half", "wrong")  # kinds that do not sleep
PER_LESSON = 1 + 2 * len(BUSY)  # the first one to end is not counted
LEARNERS, CORES = 10_000, 100
NUM_IN_REPORT = 2_000
LOOK_EVERY_S = 0.25
TECHNIQUES = {
    "compile cache": "a compilation cache of our own solutions, read-only in the "
    "sandboxes",
    "fork server": "a fork server that has loaded JAX and IPython, for sessions and "
    "judges",
    "no demonstrations": "demonstrations are skipped: a learner's functions need only "
    "the lesson's definitions",
}


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


def of_lesson(name: str, classroom: Classroom) -> dict[str, float]:
    """Grades a lesson's submissions by one worker: what one of them costs."""
    lesson = classroom.lessons[name]
    hashes = lesson_hashes(lesson, Limits())
    jobs = [
        job_of(one.student, name, one.folder, hashes)
        for one in classroom.submissions(name)
    ]
    with contextlib.closing(LocalExecutor({name: lesson}, Limits())) as executor:
        list(grade_jobs(executor, jobs[:1]))  # starts the judge
        memory = Memory()
        memory.start()
        finished = grade_jobs(executor, jobs)
        next(finished)
        looked = memory.used
        seconds, cpu, rest = timed(lambda: list(finished))
        peak = memory.stop()
    cpu -= memory.used - looked
    return {"s": seconds / len(rest), "cpu_s": cpu / len(rest), "mib": peak}


def of_lessons(folder: Path) -> dict[str, Any]:
    lessons = write_class(folder / "lessons", sources(), PER_LESSON, kinds=BUSY)
    (caches_s, caches_cpu_s, _) = timed(lambda: fill_caches(lessons))
    found = {}
    for name in lessons:
        found[name] = of_lesson(name, Classroom(folder / "lessons"))
        print(f"{name} {found[name]}", flush=True)
    return {"caches_s": caches_s, "caches_cpu_s": caches_cpu_s, "each": found}


def of_class(folder: Path) -> dict[str, Any]:
    fill_caches(write_class(folder / "ours", sources(), len(KINDS)))
    return {
        "ours": took(lambda: ours(folder / "ours")),
        "again": took(lambda: ours(folder / "ours")),
    }


def of_stock(folder: Path) -> dict[str, Any]:
    found = {"ours": of_class(folder)["ours"]}
    for name, processes in (("stock", 1), ("two", 2)):
        lessons = write_class(folder / name, sources(), len(KINDS))
        shutil.copy(folder / "ours" / SEED, folder / name / SEED)
        grading.set_up_stock(folder / name, lessons)
        found[name] = took(
            lambda f=folder / name, n=processes, all=lessons: grading.stock(f, all, n)
        )
    return found


def of_levers(folder: Path) -> dict[str, Any]:
    found = {}
    for name, change in {"with all": "", **LEVERS}.items():
        own = folder / name.replace(" ", "-")
        lessons = write_class(own, sources("05"), len(KINDS))
        if found:  # the same hidden cases, for which the cache is filled
            shutil.copy(folder / "with-all" / SEED, own / SEED)
        else:
            fill_caches(lessons)
        found[name] = took(lambda own=own, change=change: ours(own, change))
    return found


def of_cluster(folder: Path) -> dict[str, Any]:
    one, two = scaling.measured(folder, 10)
    return {"submissions": 10 * len(sources()), "one": one, "two": two}


PARTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "report": lambda folder: report.measured(NUM_IN_REPORT),
    "lessons": of_lessons,
    "class": of_class,
    "stock": of_stock,
    "levers": of_levers,
    "cluster": of_cluster,
}


def sources(number: str = "") -> list[Path]:
    paths = (path.with_suffix(".py") for path in lesson_paths())
    return [path for path in paths if path.stem.startswith(number)]


def took(run: Callable[[], Any]) -> dict[str, float]:
    """Returns the seconds of a run, and the CPU seconds of the machine meanwhile."""
    seconds, cpu, _ = timed(run)
    print(f"    {seconds:.1f} s, {cpu:.1f} CPU s", flush=True)
    return {"s": seconds, "cpu_s": cpu}


def rounded(found: Any) -> Any:
    """Rounds all numbers to a tenth."""
    if isinstance(found, dict):
        return {name: rounded(value) for name, value in found.items()}
    return round(found, 1) if isinstance(found, float) else found


def blocks(figures: dict[str, Any]) -> dict[str, str]:
    """Writes what the pages say, by the names of their blocks."""
    return {
        "lessons": lessons_block(figures["lessons"]),
        "class": class_block(figures["class"]),
        "stock": stock_block(figures["stock"]),
        "levers": levers_block(figures["levers"]),
        "report": report_block(figures["report"]),
        "cluster": cluster_block(figures["cluster"]),
    }


def measured_on(part: dict[str, Any]) -> str:
    where = f"on {part['cores']} cores with JAX {part['jax']}"
    return f"Measured {where}, {part['date']}."


def lessons_block(part: dict[str, Any]) -> str:
    rows = [
        f"| {name} | {one['s']:.1f} | {one['cpu_s']:.1f} | {one['mib']:.0f} |"
        for name, one in part["each"].items()
    ]
    cpu_s = sum(one["cpu_s"] for one in part["each"].values())
    hours = LEARNERS * cpu_s / 3600
    return "\n".join(
        [
            "| lesson | seconds | CPU seconds | peak memory, MiB |",
            "|---|---|---|---|",
            *rows,
            "",
            f"{LEARNERS:,} learners who submit all {len(rows)} lessons take "
            f"{hours:.0f} core-hours, which is",
            f"{hours * 60 / CORES:.0f} minutes on {CORES} cores. Once per machine and "
            "course our own solutions are compiled,",
            f"which takes {part['caches_cpu_s']:.0f} CPU seconds.",
            "",
            measured_on(part),
        ]
    )


def class_block(part: dict[str, Any]) -> str:
    ours, again = part["ours"], part["again"]
    return "\n".join(
        [
            f"{len(KINDS) * len(lesson_paths())} submissions of all lessons take "
            f"{ours['s']:.0f} s and {ours['cpu_s']:.0f} CPU seconds. Grading",
            f"again when nothing has changed takes {again['s']:.1f} s.",
            "",
            measured_on(part),
        ]
    )


def stock_block(part: dict[str, Any]) -> str:
    shown = {
        "this grader, contained, with its judge": part["ours"],
        "stock `nbgrader autograde`": part["stock"],
        "two of these in parallel": part.get("two"),
    }
    rows = [
        f"| {name} | {one['s']:.0f} | {one['cpu_s']:.0f} | "
        f"{one['s'] / part['ours']['s']:.1f} |"
        for name, one in shown.items()
        if one
    ]
    head = "| | seconds | CPU seconds | times as long as this grader |"
    return "\n".join([head, "|---|---|---|---|", *rows, "", measured_on(part)])


def levers_block(part: dict[str, Any]) -> str:
    rows = [
        f"| {text} | {part[name]['cpu_s'] / part['with all']['cpu_s']:.2f} times |"
        for name, text in TECHNIQUES.items()
    ]
    head = "| technique | CPU seconds without it |"
    return "\n".join([head, "|---|---|", *rows, "", measured_on(part)])


def report_block(part: dict[str, Any]) -> str:
    return "\n".join(
        [
            f"The class report of {part['learners']:,} learners and "
            f"{part['exercises']} exercises takes {part['cpu_s']:.0f} CPU seconds,",
            f"most of them to compare answers, and {part['mib']:.0f} MiB, without the "
            "reading of stored",
            "results.",
            "",
            measured_on(part),
        ]
    )


def cluster_block(part: dict[str, Any]) -> str:
    one, two = part["one"], part["two"]
    return "\n".join(
        [
            f"Two workers with two cores graded {part['submissions']} submissions of "
            f"all lessons in {two:.0f} s, one",
            f"worker with one of these cores in {one:.0f} s: a parallel efficiency of "
            f"{one / two / 2:.2f}.",
            "",
            measured_on(part),
        ]
    )


def filled(text: str, figures: dict[str, Any]) -> str:
    """Writes the figures into a page's blocks."""
    made = blocks(figures)
    return BLOCK.sub(lambda found: f"{found[1]}{made[found[2]]}\n{found[3]}", text)


def main() -> None:
    """Measures, and writes the file and the pages after each part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = ["report", "lessons", "class"]
    parser.add_argument("parts", nargs="*", metavar="part", help=" ".join(PARTS))
    chosen = parser.parse_args().parts or default
    if unknown := sorted({*chosen} - {*PARTS}):
        parser.error(f"no part is called {', '.join(unknown)}: {', '.join(PARTS)}")
    facts = {
        "date": datetime.date.today().isoformat(),
        "jax": jax.__version__,
        "cores": len(os.sched_getaffinity(0)),
    }
    caches = tempfile.TemporaryDirectory(prefix="caches-")  # none is filled before
    os.environ["XDG_CACHE_HOME"] = caches.name
    for name in chosen:
        print(name, flush=True)
        with tempfile.TemporaryDirectory(prefix="class-") as folder:
            found = rounded(PARTS[name](Path(folder)))
        figures = json.loads(FILE.read_text(encoding="utf-8")) | {name: facts | found}
        write(FILE, json.dumps(figures, indent=1) + "\n")
        for page in PAGES:
            write(page, filled(page.read_text(encoding="utf-8"), figures))


if __name__ == "__main__":
    main()
