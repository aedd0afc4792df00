"""Grades one job after another, with warm judges and compiled programs at hand."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from nbformat import NotebookNode

from grader.authoring.release import dumps
from grader.containment.limits import Limits
from grader.judging.grade_submission import grade_submission
from grader.judging.judge_process import JudgeProcess
from grader.kernel import compile_cache
from grader.results import Record
from grader.submissions.read_submission import parse_submission
from grader.workers.jobs import Job

MIN_JOBS_TO_PRECOMPILE = 6  # submissions of one lesson


class JobGrader:
    """Grades jobs, of several threads at a time.

    A judge ends with the thread that started it, so these threads live as long as this.

    Attributes:
        lessons: the solved lessons by name.
        limits: what a submission's process may use.
        trusted: whether to run submitted code without containment.
    """

    def __init__(
        self, lessons: Mapping[str, NotebookNode], limits: Limits, *, trusted: bool
    ):
        self.lessons, self.limits, self.trusted = lessons, limits, trusted
        self.lock = threading.Lock()
        self.idle: list[tuple[str, JudgeProcess]] = []
        self.closed = False
        self.filling = {name: threading.Lock() for name in lessons}

    def grade(self, job: Job) -> Record:
        """Grades one job; a fault that is not the learner's is raised."""
        with self.judge(job) as judge:
            start, used = time.monotonic(), {}
            result = grade_submission(
                job.submitted,
                self.lessons[job.lesson],
                job.lesson,
                judge,
                self.limits,
                trusted=self.trusted,
                compiled=judge.compiled,
                on_end=used.update,
            )
            seconds = time.monotonic() - start
            return Record(job.key, job.hashes, result, seconds, used)

    @contextlib.contextmanager
    def judge(self, job: Job) -> Iterator[JudgeProcess]:
        """Takes an idle judge of the job's lesson, or starts one.

        One of another lesson that idles has no work left, so it is ended.
        """
        with self.lock:
            fitting = [pair for pair in self.idle if pair[0] == job.lesson]
            others = [] if fitting else self.idle[:1]
            for pair in fitting[:1] or others:
                self.idle.remove(pair)
        for _, other in others:
            other.close()
        judge = fitting[0][1] if fitting else self.new_judge(job)
        try:
            yield judge
        except BaseException:
            judge.close()
            raise
        with self.lock:
            if not self.closed:
                self.idle.append((job.lesson, judge))
                return
        judge.close()

    def new_judge(self, job: Job) -> JudgeProcess:
        """Makes a judge for a job's lesson."""
        return JudgeProcess(
            self.lessons[job.lesson],
            trusted=self.trusted,
            wall_s=self.limits.wall_s,
            compiled=self.compiled(job),
        )

    def compiled(self, job: Job) -> Path | None:
        """Returns the folder with what our own solution of the lesson compiles, if any.

        Where untrusted code runs with our rights there is none: it could write to it.
        """
        if self.trusted:
            return None
        with self.filling[job.lesson]:  # wait for one that is being made
            folder = compile_cache.find(job.hashes)
            return folder if folder.is_dir() else None

    def fill_cache(self, job: Job) -> None:
        """Makes that folder by grading our own solution, where it is missing."""
        if self.trusted:
            return
        solve = functools.partial(self.solve, job.lesson)
        with self.filling[job.lesson]:
            compile_cache.fill(compile_cache.find(job.hashes), solve)

    def solve(self, name: str, folder: Path) -> None:
        """Grades a lesson's own solution, which adds what it compiles to a folder."""
        lesson, more = self.lessons[name], {"trusted": True, "compiled": folder}
        judge = JudgeProcess(lesson, **more)
        with contextlib.closing(judge):
            own = parse_submission(dumps(lesson).encode())
            grade_submission(own, lesson, name, judge, self.limits, **more)

    def close(self) -> None:
        """Ends the judges that wait; those at work end with their job."""
        with self.lock:
            self.closed, idle, self.idle = True, self.idle, []
        for _, judge in idle:
            judge.close()
