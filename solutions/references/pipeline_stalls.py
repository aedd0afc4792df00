"""Says which of several processes the others wait for, in `full_pipeline.py` or elsewhere.

A process that hangs, or that lives but leaves out a collective, keeps all others waiting,
and no time limit of JAX ends that. Here a thread of each process writes into a shared
folder where the process is. If that stays the same for some time, one that waits reads
what all have written, and says who is behind, and how to see where. In a loop of your own:

    stalls = Stalls("/shared/run", limit_s=120)
    with stalls.watched():
        for step in range(num_steps):
            stalls.enter(step, 0, f"step {step}")
            state = train_step(state, batch)
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax


def write_whole(path: Path, text: str) -> None:
    """Writes a file as a whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)


class Stalls:
    """Has each process say where it is, and one of them which one is behind."""

    def __init__(self, folder: Path | str, limit_s: float):
        self.folder, self.limit_s = Path(folder), limit_s
        self.number, self.is_over = jax.process_index(), threading.Event()
        self.enter(-1, 0, "its start")

    def enter(self, *place: Any) -> None:
        """Notes where this process is: a step, which of its parts, and both in words."""
        self.now = place, time.monotonic()

    def file(self, number: int) -> Path:
        return self.folder / f"process-{number}.json"

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watches over the processes of a run, if there are several."""
        thread = threading.Thread(target=self.watch, daemon=True)
        if jax.process_count() > 1 and self.limit_s:
            thread.start()
        try:
            yield
        finally:
            self.is_over.set()
            if thread.ident:
                thread.join()
                self.file(self.number).unlink(missing_ok=True)

    def watch(self) -> None:
        told, me = None, {"pid": os.getpid(), "host": socket.gethostname()}
        while not self.is_over.wait(self.limit_s / 4):
            place, since = self.now
            seconds = time.monotonic() - since
            with contextlib.suppress(OSError):
                write_whole(self.file(self.number), json.dumps({"place": place} | me))
                if seconds > self.limit_s and place != told:
                    told = place
                    self.tell(seconds)

    def tell(self, seconds: float) -> None:
        """Says which processes are behind; the first of the others does."""
        absent = {"place": [-2, 0, "its start, or sees another folder,"], "pid": "?"}
        found = [absent | {"host": "?"} for _ in range(jax.process_count())]
        for number in range(len(found)):
            if (path := self.file(number)).exists():
                found[number] = json.loads(path.read_text())
        last = min(one["place"] for one in found)
        behind = [n for n, one in enumerate(found) if one["place"] == last]
        waiting = [n for n in range(len(found)) if n not in behind]
        if self.number != (waiting or behind)[0]:
            return
        for n in behind[:4]:
            text = (
                f"Process {n} has not finished {last[2]} for {seconds:.0f} s (process "
            )
            print(text + "{pid} on host {host}).".format(**found[n]))
        places = collections.Counter(found[n]["place"][2] for n in waiting)
        texts = [f"{count} in {text}" for text, count in places.items()]
        print(
            f"The others wait: {', '.join(texts) or 'none, all are there'}. On its host, "
            "`py-spy dump --pid` shows where a process is; after `kill -USR1` it writes "
            "that to its stderr.",
            flush=True,
        )
