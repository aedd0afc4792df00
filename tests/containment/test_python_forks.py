"""A Python process from a box's fork server is like one that starts as usual."""

import json

import pytest

from grader.containment import fork_server
from grader.containment.limits import Limits
from grader.kernel import learner_box
from grader.kernel.session import Session

LIMITS = Limits(wall_s=60)
START = """
import json, os, pathlib, tempfile
from coursekit import processes
from coursekit.environment import environment_of_a_child

def started(*words, **env):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        env = environment_of_a_child() | env
        code = processes.python(words, env, out, errors).wait(60)
        texts = []
        for file in (out, errors):
            file.seek(0)
            texts.append(file.read().decode())
        return code, *texts

def script(text, *words, **env):
    pathlib.Path("/tmp/script.py").write_text(text)
    return started("/tmp/script.py", *words, **env)
"""
FACTS = """
import json, os, resource, signal, sys
import jax
kinds = ("AS", "CPU", "NPROC", "NOFILE", "FSIZE", "CORE")
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status"))
wanted = ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp")
print(json.dumps({
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "path": [path for path in sys.path if not path.endswith(".zip")],
    "words": sys.argv,
    "called": __name__,
    "limits": [resource.getrlimit(getattr(resource, f"RLIMIT_{k}")) for k in kinds],
    "privileges": {name: status[name].strip() for name in wanted},
    "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "children": signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL,
    "jax": {name: str(value) for name, value in jax.config.values.items()},
    "devices": len(jax.devices()),
    "files": sorted(os.listdir("/proc/self/fd"))[:3],
}))
"""
ENDS = {
    "the end": "print('done')",
    "a number": "import sys; print('so far'); sys.exit(3)",
    "a text": "import sys; sys.exit('no such port')",
    "an error": "def f():\n    raise ValueError('72 rows')\nf()",
    "a wrong word": "print(",
    "a signal": "import os; os.kill(os.getpid(), 9)",
    "an exit in between": "import os; print('lost'); os._exit(7)",
    "a thread": (
        "import threading, time\n"
        "def late():\n    time.sleep(0.2)\n    print('late')\n"
        "threading.Thread(target=late).start()\nprint('first')"
    ),
    "its own last words": "import atexit\natexit.register(print, 'bye')\nprint('hi')",
    "a shutdown of JAX": (
        "import jax, jax.numpy as jnp\nprint(jax.jit(jnp.sum)(jnp.arange(4)))"
    ),
}
OTHERS = ("PWD", "PYDEVD_USE_FRAME_EVAL", "TF_CPP_MIN_LOG_LEVEL", "TPU_SKIP_MDS_QUERY")
FORKED = "import sys; print('optax' in sys.modules)"


@pytest.fixture(scope="module")
def session(contained_here):
    """A forked kernel, which has a fork server in its box."""
    # The first kernel of all starts as usual.
    fork_server._shared[:] = fork_server._shared or [None]
    with Session(LIMITS) as session:
        assert session.run(START).error == ""
        yield session


@pytest.fixture(scope="module")
def usual(contained_here):
    """A kernel that starts as usual and has none."""

    def refuse(*_):
        raise fork_server.ForkServerError("for this test")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learner_box, "shared_server", refuse)
        session = Session(LIMITS)
    with session:
        assert session.run(START).error == ""
        yield session


def tell(session, code):
    """Returns the value of an expression in a kernel."""
    result = session.run(f"print(json.dumps({code}))")
    assert result.error == ""
    return json.loads(result.text)


def test_a_forked_script_finds_what_another_one_finds(session, usual):
    for words in ("'a', 'b'", "XLA_FLAGS='--xla_force_host_platform_device_count=3'"):
        code = f"script({FACTS!r}, {words}, JAX_PLATFORMS='cpu')"
        found = []
        for one in (session, usual):
            status, out, errors = tell(one, code)
            assert (status, errors) == (0, "")
            found.append(json.loads(out))
            for name in OTHERS:  # set by a start, or an import
                found[-1]["environment"].pop(name, None)
        assert found[0] == found[1]
    assert found[0]["devices"] == 3


@pytest.mark.parametrize("text", ENDS.values(), ids=ENDS)
def test_it_ends_in_the_same_way(session, usual, text):
    for of_script in (True, False):
        code = f"script({text!r})" if of_script else f"started('-c', {text!r})"
        found = []
        for one in (session, usual):
            status, out, errors = tell(one, code)
            found.append((status, out, errors.splitlines()[-1:]))
        assert found[0] == found[1]


def test_it_is_forked(session, usual):
    assert tell(session, f"script({FORKED!r})") == [0, "True\n", ""]
    assert tell(usual, f"script({FORKED!r})") == [0, "False\n", ""]


def test_one_that_runs_can_be_ended(session):
    code = """
out = tempfile.TemporaryFile()
words = ["-c", "print(1, flush=True)\\nwhile True: pass"]
child = processes.python(words, environment_of_a_child(), out, out)
before = child.poll()
child.kill()
"""
    assert session.run(code).error == ""
    assert tell(session, "[before, child.wait(), child.poll()]") == [None, -9, -9]
    assert tell(session, "os.path.exists(f'/proc/{child.pid}/exe')") is False
    assert session.run("child.kill()").error == ""  # nothing is left to end


def test_it_runs_in_the_folder_of_its_starter(session):
    code = "os.makedirs('/tmp/here', exist_ok=True); os.chdir('/tmp/here')"
    assert session.run(code).error == ""
    found = tell(session, "started('-c', 'import os; print(os.getcwd())')")
    assert found == [0, "/tmp/here\n", ""]


@pytest.mark.parametrize(
    "variable, forks",
    [
        ("JAX_PLATFORMS='cpu'", True),
        ("JAX_NUM_CPU_DEVICES='2'", True),
        ("JAX_NUM_CPU_DEVICES='two'", False),
        ("JAX_ENABLE_X64='1'", False),
        ("JAX_COMPILATION_CACHE_DIR='/tmp'", False),
        ("PYTHONOPTIMIZE='1'", False),
        ("ANYTHING='1'", True),
    ],
)
def test_what_imports_read_gets_imports_of_its_own(session, variable, forks):
    found = tell(session, f"script({FORKED!r}, {variable})")
    assert found[:2] == [0, f"{forks}\n"]


def test_a_setting_that_is_no_text_is_refused_as_everywhere(session, usual):
    for setting in ("'a\\0b'", "1"):
        for one in (session, usual):
            error = one.run(f"script('', ANYTHING={setting})").error
            assert error.startswith(("ValueError", "TypeError"))


def test_where_the_boxs_server_has_ended_python_starts_as_usual(contained_here):
    # In whatever order the tests run.
    fork_server._shared[:] = fork_server._shared or [None]
    code = "import psutil; [child.kill() for child in psutil.Process().children()]"
    with Session(LIMITS) as session:
        session.run(START)
        assert tell(session, f"script({FORKED!r})")[1] == "True\n"
        assert session.run(code).error == ""
        assert tell(session, f"script({FORKED!r})") == [0, "False\n", ""]
