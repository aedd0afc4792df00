"""Files are UTF-8 wherever the course runs, as on Windows in Korea or Germany."""

import os
import shutil
import subprocess
import sys

import pytest

from grader import ROOT

LOCALES = {"ko_KR": "EUC-KR", "en_US": "CP1252", "C": "ANSI_X3.4-1968"}
SCRIPT = """
import locale
import sys

from coursekit.processes import run_script
from coursekit.script import write_script


def train(n):
    # 합을 구한다, für alle ≤ n
    print("합:", sum(range(n)), "≤")


def fail(n):
    raise ValueError("합이 너무 크다: ≤")


write_script("train.py", train)
print(locale.getencoding(), run_script("train.py", {"n": 3}))
write_script("fail.py", fail)
print(run_script("fail.py", {"n": 3}))
"""


@pytest.fixture(params=LOCALES)
def locale_environment(request, tmp_path):
    """The environment of a Python whose files would not be UTF-8."""
    name, encoding = request.param, LOCALES[request.param]
    if name != "C":
        if not shutil.which("localedef"):
            pytest.skip("no localedef")
        name = f"{name}.{encoding}"
        words = ["localedef", "-c", "-i", request.param, "-f", encoding]
        subprocess.run([*words, tmp_path / name], capture_output=True)
        if not (tmp_path / name / "LC_CTYPE").exists():
            pytest.skip("no charmaps for localedef")
    plain = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "utf-8"}
    env = {**os.environ, **plain, "LOCPATH": str(tmp_path), "LC_ALL": name}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "lessons"), str(ROOT)])
    words = [sys.executable, "-c", "import locale; print(locale.getencoding())"]
    found = subprocess.run(words, env=env, capture_output=True, encoding="utf-8")
    assert found.stdout.strip().casefold() == encoding.casefold()
    return env


def test_a_notebooks_script_is_written_and_run(locale_environment, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, path],
        cwd=tmp_path,
        env=locale_environment,
        capture_output=True,
        encoding="utf-8",
    )
    assert not run.returncode, run.stderr
    first, second = run.stdout.splitlines()
    assert first.endswith("finished")
    assert second.endswith("합이 너무 크다: ≤.")


@pytest.mark.slow
@pytest.mark.parametrize("locale_environment", ["ko_KR"], indirect=True)
def test_a_class_is_kept(locale_environment):
    tests = ("classroom/test_enrollment.py", "classroom/test_export_template.py")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*words, *(f"tests/{one}" for one in tests)],
        cwd=ROOT,
        env=locale_environment,
        capture_output=True,
        encoding="utf-8",
    )
    assert not run.returncode, run.stdout
