"""Decides which worker grades next: some always do, more while processors idle."""

from __future__ import annotations

import dataclasses
import queue
import threading

import psutil

from grader.jobs import Done, Job, Waiting

WAIT_S, LOOK_S = 0.1, 0.15
FREE = 0.7  # of a processor


@dataclasses.dataclass(eq=False)
class Turn:
    """A worker that waits: the lesson of its judge, then the job that it is to do."""

    lesson: str
    job: Job | None = None


class Turns:
    """Gives workers their jobs, so that `at_once` of them are graded at any time.

    The last few of what waits begin at once: a processor would idle while another does
    them.
    """

    def __init__(self, todo: Waiting, at_once: int):
        self.todo, self.at_once = todo, at_once
        self.few = at_once // 2
        self.free: list[Turn] = []
        self.closed = False
        self.changed = threading.Condition()

    def take(self, lesson: str, done: Done | None = None) -> Job:
        """Waits until a worker may grade one more.

        Args:
            lesson: the one of the worker's judge, or "".
            done: what it did last.

        Raises:
            queue.Empty: nothing is left for it.
        """
        turn = Turn(lesson)
        with self.changed:
            if done:
                self.todo.end(done)
            self.free.append(turn)
            self.hand_out()
            self.changed.wait_for(lambda: turn.job or self.closed or not self.todo)
            if turn.job is None or self.closed:
                raise queue.Empty
            return turn.job

    def hand_out(self, more: int = 0) -> None:
        """Gives out jobs while not enough are graded; `more` adds to what is enough."""
        enough = max(self.at_once, len(self.todo.running) + more)
        while self.todo and self.free:
            if len(self.todo.running) >= enough and len(self.todo) > self.few:
                break
            number, job = self.todo.take([turn.lesson for turn in self.free])
            self.free.pop(number).job = job
        self.changed.notify_all()

    def watch(self) -> None:
        """Lets one more worker begin each time that a processor has nothing to do.

        What it begins is at work before the next look.
        """
        while self.todo and not self.closed:
            busy = psutil.cpu_percent(interval=LOOK_S) / 100
            with self.changed:
                if (1 - busy) * psutil.cpu_count() >= FREE:
                    self.hand_out(1)
                self.changed.wait_for(lambda: self.closed, timeout=WAIT_S)

    def close(self) -> None:
        """Gives out nothing more."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
