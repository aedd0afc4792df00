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
TASKS = re.findall(r"```python\n# ([\w ]+)\n(class (\w+).*?)```", MANUAL, re.DOTALL)
NEEDS = {
    "Flax Linen": ("flax", "from flax import linen as nn"),
    "Flax NNX": ("flax", "from flax import nnx"),
    "Equinox": ("equinox", "import equinox as eqx"),
    "Grain": ("grain", "import grain.python as grain"),
}
HEAD = """
import jax
import jax.numpy as jnp
import optax
from jax.sharding import PartitionSpec as P
from pipeline_template import MyTask
cross_entropy = optax.softmax_cross_entropy_with_integer_labels
"""


def test_the_manual_has_all_of_them():
    assert {library for library, *_ in TASKS} == set(NEEDS)
    assert all(len(text.split("\n\n")) <= 5 for _, text, _ in TASKS)


@pytest.mark.parametrize(("library", "text", "name"), TASKS, ids=lambda text: text[:10])
def test_a_task_of_a_library_trains_sharded_and_resumes(library, text, name, tmp_path):
    package, line = NEEDS[library]
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
