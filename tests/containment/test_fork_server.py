"""A kernel from the fork server is like one that starts as usual; both can fail."""

import contextlib
import json
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest

from grader import ROOT
from grader.authoring import coursekit
from grader.containment import fork_server
from grader.containment.limits import Limits
from grader.judging import judge_process
from grader.kernel import learner_box
from grader.kernel.session import Session

LIMITS = Limits(wall_s=40)
FACTS = """
import json, os, resource, signal, sys
kinds = ("AS", "CPU", "NPROC", "NOFILE", "FSIZE", "CORE")
print(json.dumps({
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "path": sys.path,
    "limits": [resource.getrlimit(getattr(resource, f"RLIMIT_{k}")) for k in kinds],
    "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "children": signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL,
    "hash": hash("a text"),
    "umask": os.umask(0o22),
}))
"""


@pytest.fixture
def no_server(monkeypatch):
    """Lets kernels start as usual."""

    def refuse(*_):
        raise fork_server.ForkServerError("for this test")

    def switch():
        monkeypatch.setattr(learner_box, "shared_server", refuse)

    return switch


@pytest.fixture(autouse=True)
def not_the_first():
    """The first kernel of all would start as usual."""
    fork_server._shared[:] = fork_server._shared or [None]


@pytest.fixture
def own_server(contained_here, monkeypatch):
    """Holds a fork server of a test's own, which it may end."""
    monkeypatch.setattr(fork_server, "_shared", found := [None])
    monkeypatch.setattr(fork_server.atexit, "register", lambda _: None)
    yield found
    fork_server.close_shared_server()


def facts():
    with Session(LIMITS) as session:
        result = session.run(FACTS)
        assert result.error == ""
        return json.loads(result.text)


def forked(session):
    return "True" in session.run("import sys; print('jax' in sys.modules)").text


def test_a_forked_kernel_finds_what_another_one_finds(contained_here, no_server):
    forked = facts()
    no_server()
    usual = facts()
    for one in (forked, usual):
        for name in ("PWD", "PYDEVD_USE_FRAME_EVAL"):  # of a start, and of an import
            one["environment"].pop(name, None)
        one["path"] = [path for path in one["path"] if not path.endswith(".zip")]
    assert forked == usual


def test_modules_come_from_the_box_and_not_from_the_server(contained_here):
    code = (
        "from coursekit import observation\n"
        "print(observation.__file__, observation.describe_call('f', [], None))"
    )
    with Session(LIMITS) as session:
        place = "/tmp/course/coursekit/observation.py"
        assert session.run(code).text == f"{place} f()\n"
        linked = (
            "import inspect; print(inspect.getsource(observation.describe_call)[:3])"
        )
        assert session.run(linked).text == "def\n"


def test_a_box_with_other_modules_has_its_own(contained_here, tmp_path):
    coursekit.copy(tmp_path / "lessons")
    with (coursekit.folder(tmp_path) / "observation.py").open("a") as file:
        file.write("\nADDED = 'here alone'\n")
    code = (
        "from coursekit import observation\nprint(getattr(observation, 'ADDED', None))"
    )
    with Session(LIMITS, root=tmp_path) as session:
        assert forked(session)
        assert session.run(code).text == "here alone\n"


def test_nothing_of_one_kernel_is_left_for_the_next(own_server):
    with Session(LIMITS) as session:
        session.run("import jax; jax.config.update('jax_enable_x64', True)")
        session.run("jax.left = open('/tmp/left', 'w'); open('/dev/shm/left', 'w')")
    code = """
import jax, os
left = [os.path.exists(f"{folder}/left") for folder in ("/tmp", "/dev/shm")]
print(jax.config.jax_enable_x64, hasattr(jax, "left"), *left)
"""
    with Session(LIMITS) as session:
        assert session.run(code).text == "False False False False\n"
    assert len(own_server) == 1


def test_one_kernel_alone_starts_as_usual(own_server):
    own_server.clear()
    with Session(LIMITS) as session:
        assert not forked(session)
    assert own_server == [None]
    with Session(LIMITS) as session:
        assert forked(session)


def test_sessions_side_by_side_share_one_server(own_server, monkeypatch):
    made, make = [], fork_server.ForkServer
    monkeypatch.setattr(
        fork_server, "ForkServer", lambda *a: made.append(make(*a)) or made[-1]
    )
    with ThreadPoolExecutor(4) as pool:
        get, more = fork_server.shared_server, ("/tmp/course", {}, {})
        futures = [pool.submit(get, *more) for _ in range(4)]
    assert {future.result() for future in futures} == {*made}
    assert len(made) == 1


def test_a_server_that_has_ended_is_replaced(own_server):
    with Session(LIMITS) as session:
        assert forked(session)
    own_server[0].process.kill()
    with Session(LIMITS) as session:  # this one starts as usual
        assert session.run("print(1)").text == "1\n"
    with Session(LIMITS) as session:
        assert forked(session)


def test_a_server_that_cannot_enter_boxes_is_done_without(own_server, monkeypatch):
    await_box, wrong = fork_server.await_box, {"box": os.getpid() + 10**7}
    monkeypatch.setattr(fork_server, "await_box", lambda box: await_box(box) | wrong)
    with Session(LIMITS) as session:
        assert not forked(session)


def test_the_server_can_be_imported_without_being_started():
    code = "import grader.containment.inside.fork_server as s, sys; print(*sys.argv)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "-c\n", "")


def test_a_box_that_does_not_start_is_an_error_at_once():
    ours, theirs = fork_server.box_sockets()
    theirs.close()
    with ours, pytest.raises(fork_server.ForkServerError, match="did not start"):
        fork_server.await_box(ours)


def test_where_many_are_expected_the_first_kernel_is_forked_too(
    contained_here, monkeypatch
):
    monkeypatch.setattr(fork_server, "_shared", [])
    learner_box.start_fork_server()
    try:
        assert fork_server._shared[0].alive
    finally:
        fork_server.close_shared_server()


LOOK = """
import json, os, resource
kinds = ("AS", "CPU", "NPROC", "NOFILE", "FSIZE", "CORE")
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status"))
wanted = ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp")
found = {
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "limits": [resource.getrlimit(getattr(resource, f"RLIMIT_{k}")) for k in kinds],
    "privileges": {name: status[name].strip() for name in wanted},
    "unused uid": os.getuid() >= 1_900_000_000 or os.getuid() == HOST,
    "files": sorted(os.listdir("/")),
    "net": sorted(os.listdir("/sys/class/net")) if os.path.exists("/sys") else [],
    "others": len([name for name in os.listdir("/proc") if name.isdigit()]) < 9,
    "seen": os.path.exists(COURSE + "/solutions"),
}
raise RuntimeError(json.dumps(found))
"""


def judge_facts(monkeypatch):
    """What a check sees of the process that it runs in."""
    source = f"COURSE, HOST = {str(ROOT)!r}, {os.getuid()}\n{LOOK}"
    check = '@visible("f", points=1, essential=["f"])\ndef examples():\n'
    check = "from coursekit.checks import visible\n\n\n" + check
    material = {
        "setup": "",
        "definitions": [],
        "solutions": [],
        "functions": [],
        "checks": check + textwrap.indent(source, "    "),
        "hidden": {},
    }
    monkeypatch.setattr(judge_process, "material", lambda _: material)
    with contextlib.closing(judge_process.JudgeProcess(None)) as judge:
        said = judge.check("f", lambda question: {})
        return json.loads(said["message"].removeprefix("RuntimeError: "))


def test_a_forked_judge_is_contained_as_another_one_is(own_server, monkeypatch):
    monkeypatch.setenv("SECRET", "ours")
    with pytest.raises(fork_server.ForkServerError):
        fork_server.running_server()
    usual = judge_facts(monkeypatch)
    assert own_server == [None]  # for a judge alone no server is made
    learner_box.start_fork_server()
    forked = judge_facts(monkeypatch)
    given = judge_process.judge_box(None).environment
    for one in (usual, forked):
        found = one.pop("environment")  # libraries add some of their own
        assert {name: found[name] for name in given} == given
        assert "SECRET" not in found
    assert forked == usual
    assert not forked["seen"]


def test_a_judge_starts_as_usual_where_the_server_has_ended(own_server, monkeypatch):
    learner_box.start_fork_server()
    own_server[0].process.kill()
    assert judge_facts(monkeypatch)["others"]


@pytest.mark.parametrize(("graded", "starts"), [(0, True), (1, True), (2, False)])
def test_a_class_with_many_to_grade_starts_the_fork_server(
    tmp_path, monkeypatch, graded, starts
):
    called = []
    monkeypatch.setattr(learner_box, "start_fork_server", lambda: called.append(True))
    for number in range(5):
        (tmp_path / "submitted" / f"learner{number}" / "01_tiny").mkdir(parents=True)
    (tmp_path / "grading" / "published" / "01_tiny").mkdir(parents=True)
    for number in range(graded):
        (tmp_path / "grading/published/01_tiny" / f"learner{number}").touch()
    learner_box.start_fork_server_for(tmp_path)
    assert called == [True] * starts
