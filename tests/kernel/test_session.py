"""A learner's kernel as the grader talks to it: what is collected, and every bad end.

The payloads run in boxes only, with limits that are small enough for any machine.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import printed
import psutil
import pytest

from grader import ROOT
from grader.containment import backend
from grader.containment import process as boxes
from grader.containment.limits import ContainmentError, Limits
from grader.containment.monitor import MAX_SOCKETS, resident, total, unshared
from grader.kernel import session as sessions
from grader.kernel.inside.frames import REPLY_TYPE
from grader.kernel.learner_box import fork_server
from grader.kernel.session import MAX_ERROR, Session, SessionEnded, SessionError

PATIENCE_S = 60  # for what must come to pass, however slow the machine
LIMITS = Limits(wall_s=40)


@pytest.fixture(scope="module")
def session(contained_here):
    """A kernel for whatever does not end it."""
    with Session(LIMITS) as session:
        yield session


@pytest.fixture
def folder(monkeypatch):
    """An empty folder for temporary files, of a short name."""
    folder = tempfile.mkdtemp(prefix="s-", dir="/tmp")
    monkeypatch.setattr(tempfile, "tempdir", folder)
    yield Path(folder)
    shutil.rmtree(folder)


def until(condition):
    """Waits until a condition holds; fails where it never does."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came to pass"
        threading.Event().wait(0.02)


def runs(pid):
    """Tells whether a process still runs: a zombie does not."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def found(mark):
    """Lists the processes with a word in their command line."""
    pids = []
    for process in psutil.process_iter(["cmdline"]):
        if mark in (process.info["cmdline"] or []) and runs(process.pid):
            pids.append(process.pid)
    return pids


def end_of(code, limits=LIMITS, wall_s=None):
    """Runs cells until the process is over, and returns why."""
    with Session(limits) as session:
        with pytest.raises(SessionEnded) as end:
            session.run(code, wall_s=wall_s)
            for _ in range(100_000):  # a thread of its own may be late
                session.run("print('still here')", wall_s=wall_s)
        with pytest.raises(SessionEnded) as again:
            session.run("1 + 1")
        assert again.value.why == end.value.why
    return end.value.why


# What a cell does is collected.


def test_what_a_cell_prints_and_displays_is_dropped(session):
    result = session.run("import sys\nprint('a')\nprint('b', file=sys.stderr)\n3 + 4")
    assert (result.error, result.replies) == ("", [])
    assert session.run("print('\\ud800')").error == ""


def test_cells_are_kept_for_scripts_as_in_a_notebook(session):
    session.run("%time one = 1")
    session.run("two = 2", silent=True)
    said = printed.run(session, "print(In[-3])")
    assert said.text == "get_ipython().run_line_magic('time', 'one = 1')\n"


def test_an_error_is_collected_and_the_next_cell_runs(session):
    code = "print('before')\nraise ValueError('wrong')\nprint('after')"
    result = printed.run(session, code)
    assert (result.text, result.error) == ("before\n", "ValueError: wrong")
    assert printed.run(session, "print(1)").text == "1\n"


def test_an_error_of_the_syntax_is_collected(session):
    assert session.run("def f(:").error.startswith("SyntaxError: ")


def test_replies_are_collected_apart(session):
    answer = json.dumps({"id": 1})
    code = f"get_ipython().display_pub.publish({{{REPLY_TYPE!r}: {answer!r}}})"
    result = session.run(code)
    assert result.replies == [answer]


def test_as_much_of_an_error_is_kept_as_can_be_read(session):
    result = session.run(f"raise ValueError('x' * {2 * MAX_ERROR})")
    assert len(result.error) == MAX_ERROR


def test_many_outputs_all_arrive(session):
    code = f"""
for _ in range(10_000):
    get_ipython().display_pub.publish({{{REPLY_TYPE!r}: "AAAA"}})
"""
    assert len(session.run(code).replies) == 10_000


@pytest.mark.parametrize(
    "code",
    [
        "os.write(2, bytes(300_000))",
        "subprocess.run(['sh', '-c', 'head -c 300000 /dev/zero >&2'])",
        "sys.__stderr__.write('x' * 300_000)",
    ],
)
def test_noise_on_the_standard_error_stops_nothing(session, code):
    result = session.run(f"import os, subprocess, sys\n{code}\nprint('done')")
    assert result.error == ""
    assert "done" in printed.run(session, "print('done')").text


def test_a_question_to_the_keyboard_fails_at_once(session):
    assert session.run("input('name? ')").error.startswith("StdinNotImplementedError")


def test_a_cell_may_await(session):
    code = "import asyncio\nawaited = await asyncio.sleep(0, 'done')"
    assert session.run(code).error == ""
    assert printed.run(session, "print(awaited)").text == "done\n"


def test_a_fork_that_comes_back_from_its_cell_answers_nothing(session):
    code = "import os\nchild = os.fork()"
    assert session.run(code).error == ""
    said = printed.run(session, "print(child > 0, *os.waitpid(child, 0)[1:])")
    assert said.text == "True 0\n"


def test_leaving_by_an_exception_is_an_error_only(session):
    assert session.run("raise SystemExit(3)").error == "SystemExit: 3"
    assert session.run("import sys\nsys.exit()").error.startswith("SystemExit")
    assert session.run("quit()").error.startswith("SystemExit")
    assert session.run("exit()").error.startswith("SystemExit")
    assert session.run("raise KeyboardInterrupt").error.startswith("KeyboardInterrupt")
    assert printed.run(session, "print(1)").text == "1\n"


def test_forks_that_share_memory_use_it_once(session):
    code = """
import os
parts = []
for _ in range(30):
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    parts.append((pid, writing))
print(len(parts))
"""
    assert printed.run(session, code).text.splitlines()[-1] == "30"
    processes = session.monitor.processes()
    assert total(resident, processes) > 2 * total(unshared, processes)
    end = "for pid, pipe in parts: os.close(pipe)\nfor pid, pipe in parts: os.wait()"
    assert session.run(end).error == ""


# What looks like a frame, and is none.

FORGE = """
import os
from grader.kernel.inside.frames import FRAME

channel = get_ipython().channel

def send(kind, text=b"", cell=None, size=None):
    cell = channel.cell if cell is None else cell
    header = FRAME.pack(kind, cell, len(text) if size is None else size)
    os.write(channel.descriptor, header + text)
"""


@pytest.mark.parametrize(
    "code",
    [
        "send(b'e', b'forged', cell=2**31)",
        "send(b'e', b'forged', cell=0)",
        "send(b'd', cell=2**31)",
        "send(b'x', b'forged')",
        "send(b'\\0', b'\\0' * 1000)",
        "send(b'e')",
        "send(b'r', b'an answer', cell=channel.cell - 1)",
        "for _ in range(100): send(b'n')",
    ],
)
def test_frames_of_no_cell_and_of_no_kind_are_ignored(session, code):
    result = session.run(f"{FORGE}\n{code}")
    assert (result.error, result.replies) == ("", [])
    assert printed.run(session, "print('next')").text == "next\n"


def test_text_that_no_file_can_hold_is_replaced(session):
    code = "send(b'r', b'half: \\xed\\xa0\\x80'); send(b'e', b'\\xff\\xfe: wrong')"
    result = session.run(f"{FORGE}\n{code}")
    assert result.replies == ["half: \ufffd\ufffd\ufffd"]
    assert result.error == "\ufffd\ufffd: wrong"


def test_a_learner_can_end_its_own_cell_early_and_no_other(session):
    session.run(f"{FORGE}\nsend(b'd')\nprint('late')")
    assert printed.run(session, "print('next')").text == "next\n"


def test_a_learner_who_ends_a_cell_early_and_reads_nothing_is_stopped(contained_here):
    code = f"{FORGE}\nsend(b'd')\nwhile True: pass"
    with Session(LIMITS) as session:
        session.run(code)
        with pytest.raises(SessionEnded, match="timed out"):
            session.run("x = 0" + " " * 2**20, wall_s=0.5)


def grown(start):
    """How many bytes this process has grown by."""
    return psutil.Process().memory_info().rss - start


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("while True: send(b'e')", "limit: output: more than 20 MiB"),
        ("while True: send(b'n', bytes(60_000))", "limit: output: more than 20 MiB"),
        ("send(b'r', b'x', size=2**32 - 1)", "limit: output: more than 20 MiB"),
        ("send(b'r', b'x', size=1000); os._exit(0)", "died"),
        ("send(b'r', b'x', size=1000)", "timed out"),
        (
            "os.closerange(3, 1000)\n"
            "import signal; signal.signal(signal.SIGALRM, lambda *_: None)\n"
            "while True: pass",
            sessions.DISCONNECTED,
        ),
    ],
    ids=["empty", "endless", "too long", "cut off", "never complete", "no pipes"],
)
def test_whatever_a_process_sends_the_grader_stays_small(
    contained_here, monkeypatch, code, why
):
    monkeypatch.setattr(sessions, "EXIT_S", 1)
    fork_server(start=True)  # without a fork bubblewrap holds the same pipes
    start = psutil.Process().memory_info().rss
    with Session(LIMITS) as session:
        with pytest.raises(SessionEnded) as end:
            session.run(f"{FORGE}\n{code}", wall_s=3)
            session.run("1 + 1", wall_s=1)
        assert grown(start) < 100 * 2**20
    assert end.value.why == why


def test_what_a_fork_prints_disturbs_no_frame(session):
    code = """
import os
pids = []
for _ in range(8):
    if not (pid := os.fork()):
        for _ in range(300):
            print("x" * 10_000)
        os._exit(0)
    pids.append(pid)
for number in range(300):
    print("y" * 100)
for pid in pids:
    os.waitpid(pid, 0)
"""
    result = printed.run(session, code)
    assert (result.error, set(result.text)) == ("", {"y", "\n"})
    assert printed.run(session, "print('next')").text == "next\n"


# The end of a process.


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos._exit(0)",
        "import ctypes\nctypes.string_at(0)",
    ],
)
def test_a_process_that_ends_itself_died(contained_here, code):
    assert end_of(code) == "died"


def test_a_loop_that_ignores_interrupts_is_stopped(contained_here):
    code = """
import signal
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
while True:
    pass
"""
    assert end_of(code, wall_s=0.5) == "timed out"


def test_a_flood_of_messages_does_not_put_off_the_end(contained_here):
    code = "while True: get_ipython().display_pub.publish({'text/plain': 'x'})"
    assert end_of(code, wall_s=0.5) == "timed out"


@pytest.mark.parametrize(
    "code",
    [
        "while True: get_ipython().channel.send(b'r', 'x' * 100_000)",
        "while True: get_ipython().channel.send(b'n', 'x' * 100_000)",
        "raise ValueError('x' * 3_000_000)",
    ],
)
def test_bytes_of_output_are_limited(contained_here, code):
    limits = Limits(wall_s=40, output_mib=2)
    assert end_of(code, limits) == "limit: output: more than 2 MiB"


def test_output_between_questions_is_limited_too(contained_here):
    code = """
import threading, time
def flood():
    time.sleep(0.2)
    while True:
        get_ipython().channel.send(b"e", "x" * 1_000_000)
threading.Thread(target=flood).start()
"""
    limits = Limits(wall_s=40, output_mib=2)
    assert end_of(code, limits) == "limit: output: more than 2 MiB"


def test_memory_of_all_processes_together_is_limited(contained_here):
    code = """
import subprocess, sys
hold = "import sys; x = bytearray(b'1') * (20 * 2**20); sys.stdin.read()"
processes = [
    subprocess.Popen([sys.executable, "-S", "-c", hold], stdin=subprocess.PIPE)
    for _ in range(6)
]
while True:
    pass
"""
    limits = Limits(wall_s=40, memory_mib=150)
    assert end_of(code, limits) == "limit: memory: more than 150 MiB"


def test_processor_time_of_all_processes_together_is_limited(contained_here):
    code = """
import os, signal
for _ in range(3):
    if not os.fork():
        while True:
            pass
signal.pause()
"""
    limits = Limits(wall_s=40, cpu_s=4)
    assert end_of(code, limits) == "limit: CPU: more than 4 s of all processes together"


def test_the_number_of_processes_is_limited(contained_here):
    code = """
import os, signal
for _ in range(12):
    if not os.fork():
        signal.pause()
while True:
    pass
"""
    limits = Limits(wall_s=40, busy=10)
    assert end_of(code, limits) == "limit: processes: more than 10 at a time"


def test_the_number_of_files_is_limited(contained_here):
    code = """
for number in range(3000):
    open(f"/tmp/{number}", "w").close()
while True:
    pass
"""
    limits = Limits(wall_s=40, files=2000)
    assert end_of(code, limits) == "limit: disk: more than 2000 files"


def test_the_number_of_sockets_is_limited(contained_here):
    code = """
import socket, os
for _ in range(6):
    held = [socket.socketpair() for _ in range(100)]
    if not os.fork():
        break
while True:
    pass
"""
    assert end_of(code) == f"limit: memory: more than {MAX_SOCKETS} sockets"


@pytest.mark.parametrize("code", ["1 + 1", "import os\nos._exit(0)"])
def test_nothing_is_left_behind(contained_here, folder, code):
    with Session(LIMITS) as session:
        with contextlib.suppress(SessionEnded):
            session.run(code)
            session.run(code)
    assert [*folder.iterdir()] == []
    for thread in (session.monitor, session.python.stderr_tail):
        thread.join(timeout=PATIENCE_S)
        assert not thread.is_alive()
    assert not runs(session.process.pid)


def test_closing_twice_does_no_harm(contained_here):
    session = Session(LIMITS)
    session.close()
    session.close()
    assert session.process.poll() is not None
    left = len(os.listdir("/proc/self/fd"))
    with Session(LIMITS):
        pass
    until(lambda: len(os.listdir("/proc/self/fd")) <= left)


DAEMON = """
import os, sys
if not os.fork():
    os.setsid()
    if not os.fork():
        os.closerange(0, 100)
        hold = "import signal; signal.pthread_sigmask(0, range(1, 30)); signal.pause()"
        os.execv(sys.executable, [sys.executable, "-S", "-c", hold, MARK])
    os._exit(0)
os.wait()
"""


def test_a_process_that_left_its_kernel_is_gone_after_the_end(contained_here):
    mark = f"daemon-of-{os.getpid()}-{time.monotonic_ns()}"
    with Session(LIMITS) as session:
        assert session.run(DAEMON.replace("MARK", repr(mark))).error == ""
        until(lambda: found(mark))
    until(lambda: not found(mark))


def test_the_end_of_the_grader_ends_its_boxes(contained_here):
    mark = f"daemon-of-{os.getpid()}-{time.monotonic_ns()}"
    grader = f"""
import psutil
from grader.containment.limits import Limits
from grader.kernel.session import Session
session = Session(Limits())
session.run({DAEMON.replace("MARK", repr(mark))!r})
processes = psutil.Process().children(recursive=True)
print(*(process.pid for process in processes), flush=True)
session.run("while True: pass")
"""
    words, root = [sys.executable, "-c", grader], ROOT
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        pids = [int(word) for word in process.stdout.readline().split()]
        assert len(pids) >= 3
        until(lambda: found(mark))
        process.send_signal(signal.SIGKILL)
    until(lambda: not [pid for pid in pids if runs(pid)])
    assert found(mark) == []


# A process that does not start.


@pytest.fixture
def no_server(monkeypatch):
    monkeypatch.setattr(sessions, "fork_server", lambda: None)


def test_a_kernel_that_dies_at_its_start_is_no_fault_of_the_learner(
    contained_here, folder, monkeypatch, no_server
):
    monkeypatch.setattr(sessions, "RUNNER", "grader.no_such_module")
    with pytest.raises(SessionError, match=r"It died.*grader\.no_such_module"):
        Session(LIMITS)
    assert [*folder.iterdir()] == []


def test_a_kernel_that_has_too_little_memory_is_no_fault_of_the_learner(
    contained_here, folder, no_server
):
    with pytest.raises(SessionError, match=r"did not start\. It died"):
        Session(Limits(address_mib=20))
    assert [*folder.iterdir()] == []


def test_a_kernel_that_never_answers_is_given_up(
    contained_here, folder, monkeypatch, no_server
):
    monkeypatch.setattr(sessions, "START_S", 1)
    # Prints that it is there, and waits for input.
    monkeypatch.setattr(sessions, "RUNNER", "code")
    with pytest.raises(SessionError, match=r"not respond in 1 s\. Python .*\n"):
        Session(LIMITS)
    assert [*folder.iterdir()] == []


def test_without_containment_nothing_runs_and_nothing_is_left(folder, monkeypatch):
    def refuse():
        raise ContainmentError("nothing here contains")

    monkeypatch.setattr(boxes, "backend", refuse)
    with pytest.raises(ContainmentError, match="nothing here contains"):
        Session(LIMITS)
    assert [*folder.iterdir()] == []


# A learner's own work, which needs no containment.


def test_an_interrupt_means_what_it_does_in_a_notebook_wherever_a_grader_ignores_it():
    code = "import signal\nprint(signal.getsignal(signal.SIGINT).__name__)"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Session(LIMITS, trusted=True) as session:
            assert printed.run(session, code).text == "default_int_handler\n"
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_trusted_kernel_runs_with_the_users_rights(folder):
    code = "import os\nprint(os.getuid(), 'COURSE_CONTAINED' in os.environ)"
    with Session(LIMITS, trusted=True) as session:
        result = printed.run(session, code)
    assert (result.error, result.text) == ("", f"{os.getuid()} False\n")
    assert [*folder.iterdir()] == []


def test_what_a_trusted_kernel_writes_to_the_temporary_folder_is_removed():
    with Session(LIMITS, trusted=True) as session:
        made = printed.run(session, "import tempfile\nprint(tempfile.mkdtemp())").text
        assert Path(made.strip()).is_dir()
    assert not Path(made.strip()).exists()


# Docker and Podman.


@pytest.fixture(params=["docker", "podman"])
def running_engine(request):
    """Skips, naming the reason, where the engine does not run."""
    program = request.param
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    info = subprocess.run([program, "info"], capture_output=True, text=True, timeout=60)
    if info.returncode:
        pytest.skip(f"{program} does not run: {info.stderr.strip()[-200:]}")
    assert backend.probe(program) == ""
    return program


def test_an_engine_holds_a_kernel_to_its_end(running_engine, folder, monkeypatch):
    monkeypatch.setattr(boxes, "backend", lambda: running_engine)
    with Session(Limits()) as session:
        code = "import os\nprint(os.environ['COURSE_CONTAINED'])"
        result = printed.run(session, code)
        assert (result.error, result.text) == ("", "1\n")
        name = name_of(session.python.words)
        assert name in listed(running_engine)
    assert name not in listed(running_engine)


def test_the_end_of_the_grader_ends_its_containers(running_engine):
    grader = f"""
from grader.containment import process
process.backend = lambda: {running_engine!r}
from grader.containment.limits import Limits
from grader.kernel.session import Session
session = Session(Limits())
print(*session.python.words, flush=True)
session.run("while True: pass")
"""
    words, root = [sys.executable, "-c", grader], ROOT
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        name = name_of(process.stdout.readline().split())
        assert name in listed(running_engine)
        process.kill()
    until(lambda: name not in listed(running_engine))


def name_of(command):
    return next(w for w in command if w.startswith("--name=")).removeprefix("--name=")


def listed(program):
    """Lists the names of the containers that run."""
    words = [program, "ps", "--format", "{{.Names}}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout
