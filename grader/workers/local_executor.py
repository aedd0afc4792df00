"""Grades jobs on this machine, with warm judges and compiled programs."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import nbformat
import psutil
from nbformat import NotebookNode

from coursekit.i18n import plural
from grader import ROOT
from grader.containment.backend import backend
from grader.containment.cgroup import tree
from grader.containment.limits import Limits
from grader.judging import known_results
from grader.judging.grade_submission import grade_submission
from grader.judging.judge_process import JudgeProcess
from grader.kernel import compile_cache
from grader.kernel.learner_box import fork_server
from grader.lessons.release import dumps, exercises
from grader.results import Record
from grader.submissions.read_submission import parse_submission
from grader.workers.jobs import Job

LOOK_S = 1.0  # a shorter look at the cores says little
IDLE = 0.75  # of a core: the rest is what grading itself takes


class LocalExecutor:
    """Grades up to `workers` jobs at a time, each in a thread.

    While a core is idle, since submissions can sleep, up to `spare` more jobs are
    started, one at each look. A judge's process ends with the thread that started it.

    Raises:
        ContainmentError: untrusted code cannot be contained here.
    """

    def __init__(
        self,
        lessons: Mapping[str, NotebookNode],
        limits: Limits,
        *,
        workers: int = 1,
        spare: int = 0,
        trusted: bool = False,
    ):
        how = "trusted, not contained" if trusted else f"contained by {backend()}"
        if how.endswith("bubblewrap"):
            how += f"; {tree()}"
            fork_server(start=True)
        more = ", more while cores are idle" if spare else ""
        self.description = f"with {workers} worker{plural(workers)}{more} ({how})"
        self.lessons, self.limits, self.trusted = lessons, limits, trusted
        self.workers, self.spare = workers, spare
        self.pool = ThreadPoolExecutor(workers + spare, "grader")
        self.running: set[Future[Record]] = set()
        self.looked, _ = time.monotonic(), idle_cores()  # the first call says nothing
        self.idle_judges: list[tuple[str, JudgeProcess]] = []  # with their lessons
        self.lock = threading.Lock()
        self.compiling = {name: threading.Lock() for name in lessons}

    def slots(self) -> int:
        """Returns how many jobs may be running.

        The number is `workers`, or one more than are running now if a look at the
        cores, at most once a second, finds an idle one.
        """
        now, running = time.monotonic(), len(self.running)
        if running < self.workers or now - self.looked < LOOK_S:
            return self.workers
        self.looked, is_idle = now, idle_cores() >= IDLE
        return min(running + is_idle, self.workers + self.spare)

    def submit(self, job: Job, precompile: bool) -> Future[Record]:
        """Starts to grade a job; with `precompile`, compiles its lesson first."""
        future = self.pool.submit(self.grade, job, precompile)
        self.running.add(future)
        future.add_done_callback(self.running.discard)
        return future

    def grade(self, job: Job, precompile: bool) -> Record:
        """Grades a job in this thread; an error that is not the learner's is raised."""
        judge = self.take_judge(job.lesson) or JudgeProcess(
            self.lessons[job.lesson],
            trusted=self.trusted,
            wall_s=self.limits.wall_s,
            compiled=self.compiled(job, precompile),
            known=None if self.trusted else known_results.find(job.hashes),
        )
        start = time.monotonic()
        try:
            result = grade_submission(
                job.submitted,
                self.lessons[job.lesson],
                job.lesson,
                judge,
                self.limits,
                trusted=self.trusted,
                compiled=judge.compiled if self.is_public(job.lesson) else None,
            )
            judge.keep_known()
        except BaseException:
            judge.close()
            raise
        with self.lock:
            self.idle_judges.append((job.lesson, judge))
        return Record(job.key, job.hashes, result, time.monotonic() - start)

    def take_judge(self, lesson: str) -> JudgeProcess | None:
        """Takes an idle judge of a lesson; if there is none, ends one of another."""
        with self.lock:
            self.idle_judges.sort(key=lambda pair: pair[0] == lesson)
            name, judge = self.idle_judges.pop() if self.idle_judges else ("", None)
        if judge and name != lesson:
            judge.close()
            return None
        return judge

    def compiled(self, job: Job, precompile: bool) -> Path | None:
        """Returns the folder with what a lesson's solution compiles, if there is one.

        Trusted code gets none: it runs with our rights and could write to the folder.
        """
        if self.trusted:
            return None
        folder = compile_cache.find(job.hashes)
        with self.compiling[job.lesson]:  # the other threads wait for the programs
            if precompile:
                compile_cache.fill(folder, functools.partial(self.solve, job))
        return folder if folder.is_dir() else None

    def is_public(self, name: str) -> bool:
        """Tells whether the course itself publishes the solution of each exercise.

        Learners' code can read what a solution compiles: not that of private exercises,
        or of siblings of ours.
        """
        path = ROOT / "solutions" / f"{name}.ipynb"
        if not path.exists():
            return False  # an instructor's own lesson
        public, own = (
            {one: cell.source for one, cell in exercises(lesson).items()}
            for lesson in (nbformat.read(path, as_version=4), self.lessons[name])
        )
        return own.items() <= public.items()

    def solve(self, job: Job, folder: Path) -> None:
        """Grades a lesson's own solution, which adds what it compiles to `folder`."""
        name, lesson = job.lesson, self.lessons[job.lesson]
        more = {"trusted": True, "compiled": folder}
        judge = JudgeProcess(lesson, known=known_results.find(job.hashes), **more)
        with contextlib.closing(judge):
            own = parse_submission(dumps(lesson).encode())
            grade_submission(own, lesson, name, judge, self.limits, **more)
            judge.keep_known()

    def close(self) -> None:
        """Starts nothing more and ends the idle judges; running jobs go on."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        for _, judge in self.idle_judges:
            judge.close()


def usable_cores() -> list[int]:
    """Lists the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return [*range(os.cpu_count() or 1)]  # not Linux


def idle_cores() -> float:
    """Returns how many of the usable cores were idle since the last call."""
    busy = psutil.cpu_percent(percpu=True)
    return sum(1 - busy[core] / 100 for core in usable_cores() if core < len(busy))
