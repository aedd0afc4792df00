"""Every whole program says how it is used, and a lesson leads to it."""

import subprocess
import sys
from pathlib import Path

import pytest

SOLUTIONS = Path(__file__).resolve().parents[2] / "solutions"
PROGRAMS = [
    path
    for path in sorted((SOLUTIONS / "references").glob("*.py"))
    if '__name__ == "__main__"' in path.read_text()
]
every_program = pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)


@every_program
def test_help_lists_the_options(path):
    text = path.read_text()
    for library in ("flax", "keras", "tqdm", "optax"):
        if f"import {library}" in text or f"from {library}" in text:
            pytest.importorskip(library)
    line = [sys.executable, str(path), "--help"]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout and "--" in done.stdout.replace("--help", "")


@every_program
def test_a_lesson_links_it(path):
    lessons = [lesson.read_text() for lesson in SOLUTIONS.glob("[0-9][0-9]_*.py")]
    assert any(f"{path.name}`" in text for text in lessons)
