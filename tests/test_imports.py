"""Each module imports alone, whatever has been imported before it."""

import subprocess
import sys

from grader import ROOT

# Third-party packages are imported once; a fork for each module imports it first.
PROGRAM = """
import gc, os, sys
gc.disable()  # collections would add a third
import distributed, jupyter_client, matplotlib.pyplot, nbclient, nbgrader.api
import nbgrader.preprocessors, optax, jax, PIL.Image

failed = []
for name in sys.argv[1:]:
    assert not [m for m in sys.modules if m.split(".")[0] in ("grader", "coursekit")]
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        try:
            __import__(name)
        except BaseException as error:
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""


def modules(folder, base):
    """Names the modules below a folder; a lesson's checks need what it has set up."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(base).with_suffix("").parts
        if not parts[-1][0].isdigit():
            yield ".".join(parts).removesuffix(".__init__")


def test_each_module_imports_alone():
    names = [*modules(ROOT / "grader", ROOT)]
    names += modules(ROOT / "lessons" / "coursekit", ROOT / "lessons")
    assert len(names) > 80
    inside = ROOT / "grader/containment/inside"  # scripts there find each other so
    path = f"{ROOT}:{ROOT / 'lessons'}:{inside}"
    env = {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    words = [sys.executable, "-W", "ignore", "-c", PROGRAM, *names]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_a_notebook_imports_pyplot_only_to_draw():
    """Importing it takes half a second, and more where fonts must be found first."""
    program = "import sys, coursekit.notebook as _; print('pyplot' in str(sys.modules))"
    env = {"PYTHONPATH": str(ROOT / "lessons"), "JAX_PLATFORMS": "cpu"}
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
