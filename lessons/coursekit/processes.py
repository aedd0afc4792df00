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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .environment import environment_of_a_child, set_environment

POLL_S = 0.02


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
        timeout_s: seconds after which all are ended; on Linux, time in which a process
            waited for a processor does not count.

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
    env |= {"JAX_PLATFORMS": "cpu", "PYTHONIOENCODING": "utf-8"}
    shared = [str(path), json.dumps(dict(settings))]
    if num_processes > 1:
        shared += [f"localhost:{free_port()}", str(num_processes)]
    children, outputs = [], []
    with contextlib.ExitStack() as stack:
        for number in range(num_processes):
            file = stack.enter_context(tempfile.TemporaryFile())
            arguments = [*shared, str(number)] if num_processes > 1 else shared
            command = [sys.executable, *arguments]
            child = subprocess.Popen(command, env=env, stdout=file, stderr=file)
            stack.callback(kill, child)
            children.append(child)
            outputs.append(file)
        end = time.monotonic() + timeout_s
        while any(child.poll() is None for child in children):
            if any(child.poll() for child in children):
                break
            if time.monotonic() > end + max(map(waited_s, children)):
                return f"Ended after {timeout_s:g} s: it did not finish."
            time.sleep(POLL_S)
        first = cause([child.poll() for child in children])
        return "finished" if first is None else failure(first, children, outputs)


def waited_s(child: subprocess.Popen) -> float:
    """Returns how long a process waited for a processor, if the system tells it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        path = Path(f"/proc/{child.pid}/schedstat")
        return int(path.read_text(encoding="utf-8").split()[1]) / 1e9
    return 0.0


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
    outputs[number].seek(0)
    how = f"ended with code {code}: {last_line(outputs[number].read())}"
    if code < 0:
        how = f"was killed by {signal.Signals(-code).name}"
    if len(children) == 1:
        return f"The process {how}."
    return f"Process {number} of {len(children)} {how}; the others were ended."


def last_line(said: bytes) -> str:
    """Returns the last line of what a process wrote."""
    lines = said.decode(errors="replace").strip().splitlines()
    return lines[-1].rstrip(".") if lines else "it said nothing"


def count_devices(env: Mapping[str, Any], timeout_s: float = 60) -> int | str:
    """Counts the CPU devices that a fresh Python process sees in an environment.

    Only the variables that JAX and XLA read are taken from it. Where the process fails,
    its last line of error text is returned.
    """
    given = {str(key): str(value) for key, value in env.items()}
    read = {key: text for key, text in given.items() if key[:4] in ("XLA_", "JAX_")}
    code = "import jax; print(len(jax.devices('cpu')))"
    command, env = [sys.executable, "-c", code], environment_of_a_child() | read
    try:
        run = subprocess.run(command, env=env, capture_output=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return f"no answer within {timeout_s} s"
    except (OSError, ValueError) as error:  # no environment of a process
        return str(error)
    return last_line(run.stderr) if run.returncode else int(last_line(run.stdout))


def kill(child: subprocess.Popen) -> None:
    """Kills a process and waits until it has ended."""
    child.kill()
    child.wait()


def free_port() -> int:
    """Finds a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]
