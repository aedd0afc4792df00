"""Grades a class: many submissions side by side, each result kept before it is told."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from jupyter_core.utils import ensure_event_loop
from nbformat import NotebookNode

from grader import compile_cache
from grader.autograde import autograde, nothing_to_grade
from grader.containment import Limits, backend
from grader.intake import parse_submission
from grader.jobs import Done, Job, Waiting, failed
from grader.judging import JudgeProcess
from grader.own_files import dumps
from grader.processors import own_processor
from grader.results import Result, Status
from grader.store import Record, Store
from grader.turns import Turns

WORTH_COMPILING = 6  # submissions of one lesson


class Grading:
    """Grades jobs of one class.

    Attributes:
        lessons: the solved lessons by name.
        limits: what a submission's process may use.
        workers: how many submissions are graded side by side.
        spare: how many more while processors idle, as submissions can sleep.
        trusted: whether to run their code without containment.
        how: how it is run, in words.

    Raises:
        ContainmentError: strangers' code cannot be contained here.
    """

    def __init__(
        self,
        lessons: dict[str, NotebookNode],
        limits: Limits,
        *,
        workers: int = 1,
        spare: int = 0,
        trusted: bool = False,
    ):
        self.lessons, self.limits = lessons, limits
        self.workers, self.spare, self.trusted = workers, spare, trusted
        self.how = self.in_words()
        self.turns: Turns | None = None
        self.filling = {name: threading.Lock() for name in lessons}
        self.jobs: collections.Counter[str] = collections.Counter()

    def in_words(self) -> str:
        """Says by how many workers, and how, strangers' code is run.

        Raises:
            ContainmentError: it cannot be contained here.
        """
        how = "trusted, not contained" if self.trusted else f"contained by {backend()}"
        more = f", {self.spare} more while processors idle" if self.spare else ""
        return f"with {self.workers} worker{'s' * (self.workers != 1)}{more} ({how})"

    def close(self) -> None:
        """Ends what outlives a run."""
        if self.turns:
            self.turns.close()

    def run(self, jobs: Sequence[Job]) -> Iterator[Done]:
        """Begins at once; yields each job as it is done, in any order.

        Failed ones are tried again, each alone on the machine. Where it fails then too
        and the lesson's own solution is graded well, the fault is bound to the
        submission.
        """
        return self.and_again(self.side_by_side(jobs, self.workers))

    def and_again(self, first: Iterator[Done]) -> Iterator[Done]:
        """Yields what is done, and tries again what failed.

        So it does with what took too long: beside spare workers all takes longer.
        """
        failed, late = [], []
        for done in first:
            if done.error:
                failed.append(done.job)
            elif self.spare and done.took_too_long:
                late.append(done.job)
            else:
                yield done
        self.spare = 0
        for done in self.side_by_side(late, self.workers) if late else ():
            if done.error:
                failed.append(done.job)
            else:
                yield done
        for job in failed:
            [done] = self.side_by_side([job], 1)
            yield done if not done.error else self.blamed(done)

    def side_by_side(self, jobs: Sequence[Job], workers: int) -> Iterator[Done]:
        """Starts workers, and spare ones; returns jobs as they finish them."""
        self.jobs = collections.Counter(job.lesson for job in jobs)
        turns, finished = Turns(Waiting(jobs), workers), queue.SimpleQueue()
        self.turns = turns
        for number in range(min(workers + self.spare, len(jobs))):
            name = f"grader-{number}"
            threading.Thread(
                target=self.work, args=(turns, finished), name=name, daemon=True
            ).start()
        if self.spare:
            threading.Thread(target=turns.watch, name="watch", daemon=True).start()
        return self.finished(len(jobs), turns, finished)

    def finished(
        self, count: int, turns: Turns, found: queue.SimpleQueue[Done]
    ) -> Iterator[Done]:
        """Yields as many jobs as there are; stops the workers when nobody asks on."""
        try:
            for _ in range(count):
                yield found.get()
        finally:
            turns.close()

    def work(self, turns: Turns, finished: queue.SimpleQueue[Done]) -> None:
        """Grades until nothing is left."""
        worker, done = Worker(self), None
        with contextlib.nullcontext() if self.spare else own_processor():
            with contextlib.suppress(queue.Empty), contextlib.closing(worker):
                while True:
                    done = worker.grade(turns.take(worker.lesson, done))
                    finished.put(done)
            ensure_event_loop().close()  # jupyter_client makes one per thread

    def judge(self, job: Job) -> JudgeProcess:
        """Makes a judge for a job's lesson."""
        return JudgeProcess(
            self.lessons[job.lesson],
            trusted=self.trusted,
            wall_s=self.limits.wall_s,
            compiled=self.compiled(job),
        )

    def compiled(self, job: Job) -> Path | None:
        """Returns the folder with what our own solution of the lesson compiles.

        For a few submissions it is not made. Where strangers run with our rights there
        is none: they could write to it.
        """
        if self.trusted:
            return None
        with self.filling[job.lesson]:
            folder = compile_cache.find(job.hashes)
            if self.jobs[job.lesson] < WORTH_COMPILING:
                return folder if folder.is_dir() else None
            return compile_cache.fill(folder, functools.partial(self.solve, job.lesson))

    def solve(self, name: str, folder: Path) -> None:
        """Grades a lesson's own solution, which adds what it compiles to a folder."""
        lesson, more = self.lessons[name], {"trusted": True, "compiled": folder}
        with contextlib.closing(JudgeProcess(lesson, **more)) as judge:
            own = parse_submission(dumps(lesson).encode())
            autograde(own, lesson, name, judge, self.limits, **more)

    def grade(self, job: Job, judge: JudgeProcess) -> Done:
        """Grades one job; a fault that is not the learner's is raised."""
        if job.submitted is None:
            return Done(job, error=job.problem)
        start = time.monotonic()
        result = autograde(
            job.submitted,
            self.lessons[job.lesson],
            job.lesson,
            judge,
            self.limits,
            trusted=self.trusted,
            compiled=judge.compiled,
        )
        seconds = time.monotonic() - start
        return Done(job, Record(job.key, job.hashes, result, seconds))

    def blamed(self, done: Done) -> Done:
        """Decides about a job that failed twice: this submission, or this machine?"""
        job, lesson = done.job, self.lessons[done.job.lesson]
        if job.submitted is None:
            return done
        own = parse_submission(dumps(lesson).encode())
        [check] = self.side_by_side([dataclasses.replace(job, submitted=own)], 1)
        if check.error or check.record.result.points < check.record.result.max_points:
            return done
        reason = (
            f"Grading it failed twice ({done.error}), while the lesson's own solution "
            "is graded well on this machine."
        )
        result = nothing_to_grade(lesson, job.lesson, (), (reason,))
        result = dataclasses.replace(result, status=Status.NEEDS_REVIEW)
        return Done(job, Record(job.key, job.hashes, result))


class Worker:
    """Grades one job after another, with a warm judge for one lesson at a time.

    Sessions and judges end with the thread that started them, so one thread does all.
    """

    def __init__(self, grading: Grading):
        self.grading, self.judge, self.lesson = grading, None, ""

    def grade(self, job: Job) -> Done:
        """Grades a job; a fault of ours or of the machine's is told in it."""
        try:
            if self.judge is None or self.lesson != job.lesson:
                self.close()
                self.judge, self.lesson = self.grading.judge(job), job.lesson
            return self.grading.grade(job, self.judge)
        except Exception as error:
            self.close()
            return failed(job, error)

    def close(self) -> None:
        """Ends the judge; the next job starts another."""
        if self.judge:
            self.judge.close()
        self.judge = None


def infra_error(job: Job, lesson: NotebookNode, error: str) -> Result:
    """Makes the result that stands for our own fault; it is never kept."""
    result = nothing_to_grade(lesson, job.lesson, (), (error,))
    return dataclasses.replace(result, status=Status.INFRA_ERROR)


def split(
    jobs: Sequence[Job], store: Store
) -> tuple[list[tuple[Job, Record]], list[Job]]:
    """Parts jobs whose results are in the store from those that must be graded."""
    found = [(job, store.get(job.key)) for job in jobs]
    ready = [(job, record) for job, record in found if record]
    return ready, [job for job, record in found if not record]
