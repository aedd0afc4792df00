"""Each whole program says how it is used, and a lesson names it."""

import re
import subprocess
import sys

import pytest

from grader import ROOT

REFERENCES = ROOT / "solutions" / "references"
TEXTS = {path.stem: path.read_text() for path in sorted(REFERENCES.glob("*.py"))}
PROGRAMS = [name for name, text in TEXTS.items() if '__name__ == "__main__"' in text]
# What runs a program as a script, without one library.
RUN = "import runpy, sys; path = sys.argv.pop(); sys.modules[sys.argv.pop()] = None; "
RUN += "runpy.run_path(path, run_name='__main__')"


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_says_what_a_program_does(run, name):
    usage, *printed = run(name, "--help")
    assert usage.startswith(f"usage: {name}.py")
    first = re.match('"""(.*)', TEXTS[name])[1]
    assert first in " ".join(map(str.strip, printed))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_lesson_names_every_program(name):
    lessons = ROOT.glob("solutions/[0-9][0-9]_*.py")
    texts = [path.read_text(encoding="utf-8") for path in lessons]
    assert any("solutions/references/" in t and f"{name}.py" in t for t in texts)


@pytest.mark.parametrize(
    ("name", "library"),
    [("dot_relu_dot", "flax"), ("ensemble", "flax"), ("keras_digits", "keras")],
)
def test_a_missing_library_is_named_with_the_remedy(name, library):
    command = [sys.executable, "-c", RUN, library, str(REFERENCES / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.endswith(f"pip install {library}\n")
    assert "Traceback" not in done.stderr
