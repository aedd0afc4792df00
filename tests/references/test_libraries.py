"""The manual's tasks in Flax Linen, NNX, Equinox and Grain are short, and train."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

REFERENCES = Path(__file__).resolve().parents[2] / "solutions" / "references"
sys.path.append(str(REFERENCES))
pytest.importorskip("orbax.checkpoint")

from full_pipeline import Config, fit

pytestmark = [
    pytest.mark.usefixtures("usual_promotion"),
    pytest.mark.filterwarnings("ignore"),  # those of the libraries are their own
]
MANUAL = (REFERENCES.parents[1] / "docs" / "training.md").read_text()
[HEAD] = re.findall(r"```python\n(import jax\n.*?)```", MANUAL, re.DOTALL)
TASKS = re.findall(r"```python\n# ([\w ]+)\n(.*?)\n\n(class .*?)```", MANUAL, re.DOTALL)


def test_the_manual_has_all_of_them():
    libraries = [library for library, *_ in TASKS]
    assert libraries == ["Flax Linen", "Flax NNX", "Equinox", "Grain"]
    assert all(len(text.split("\n\n")) <= 5 for *_, text in TASKS)


@pytest.mark.parametrize(("library", "line", "text"), TASKS, ids=lambda text: text[:10])
def test_a_task_of_a_library_trains_sharded_and_resumes(library, line, text, tmp_path):
    name, package = re.match(r"class (\w+)", text)[1], line.split()[1].split(".")[0]
    if not importlib.util.find_spec(package):
        pytest.skip(f"needs {package}")
    (path := tmp_path / f"task_{name.lower()}.py").write_text(f"{HEAD}{line}\n{text}")
    assert len([line for line in text.splitlines() if line]) <= 12

    def run(folder, num_steps):
        settings = {"task": f"{path}:{name}", "num_steps": num_steps, "save_every": 20}
        settings |= {"schedule_steps": 100, "compute_dtype": "float32"}
        return fit(Config(str(tmp_path / folder), **settings), progress=False)

    whole = run("whole", 40)
    assert whole["losses"][-1] < 0.8 * whole["losses"][0]
    run("halves", 20)
    assert run("halves", 40)["losses"] == whole["losses"][20:]
    if library != "Grain":
        import jax

        parts = [
            leaf.addressable_shards[0].data.size / leaf.size
            for leaf in jax.tree.leaves(whole["params"])
        ]
        assert min(parts) == 1 / 8
