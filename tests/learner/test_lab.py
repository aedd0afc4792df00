"""A learner opens the lesson in JupyterLab, solves two exercises, sees the outcomes."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from servers import browser_page, free_port, jupyter_env, server

ROOT = Path(__file__).resolve().parents[2]
LAB = [sys.executable, "-m", "grader", "lab", "--no-browser"]
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "tests", "answers")
SPLIT = "np.stack(np.split(np.asarray(x), num_devices))"
ANSWERS = {
    "shard_batch": f"    return jax.tree.map(lambda x: {SPLIT}, batch)",
    # wrong: one device does all of the work
    "make_parallel_predict": "    return jax.jit(predict)",
}
# All cells stay in the page, so that the test can find them without scrolling.
SETTINGS = '{"@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"}}'


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Runs `python -m grader lab` on a copy of the course; yields a browser's page."""
    folder = tmp_path_factory.mktemp("lab")
    course = folder / "course"
    shutil.copytree(ROOT, course, ignore=NOT_COPIED)
    labconfig = folder / "more" / "labconfig"
    labconfig.mkdir(parents=True)
    (labconfig / "default_setting_overrides.json").write_text(SETTINGS)
    env = jupyter_env(folder) | {"JUPYTER_CONFIG_PATH": str(folder / "more")}
    command = [*LAB, "--port", str(free_port())]
    more = {"cwd": course, "env": env, "printed": []}
    with browser_page() as page, server(command, **more) as address:
        page.address, page.printed = address, more["printed"]
        page.goto(address)
        yield page


def take_screenshot(page, name):
    """Keeps a picture for people to look at where SCREENSHOTS names a folder."""
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


def exercise(page, name):
    return page.locator(".jp-CodeCell").filter(has_text=f"# exercise: {name}")


def check(page, name):
    return page.locator(".jp-CodeCell").filter(has_text=f'check("{name}")')


def test_page_opens_on_the_list_of_lessons(lab):
    preview = lab.locator(".jp-MarkdownViewer")
    preview.get_by_role("link", name="Lesson 1. pmap").wait_for()
    lab.locator(".jp-DirListing").get_by_text("01_pmap_spmd.ipynb").wait_for()
    take_screenshot(lab, "1-list-of-lessons")


def test_lesson_opens_from_the_list_and_answers_are_typed(lab):
    link = lab.locator(".jp-MarkdownViewer").get_by_role("link", name="Lesson 1. pmap")
    link.click()
    lab.locator(".jp-NotebookPanel").wait_for()
    lab.locator("#jp-main-statusbar").get_by_text("| Idle").wait_for()
    for name, line in ANSWERS.items():
        stub = exercise(lab, name).locator(".cm-line", has_text="raise NotImplemented")
        stub.click(click_count=3)
        lab.keyboard.type(f"{line}\n")
    take_screenshot(lab, "2-typed-answer")
    assert ANSWERS["shard_batch"] in exercise(lab, "shard_batch").inner_text()


def test_run_all_shows_a_pass_a_failure_and_the_scorecard(lab):
    lab.get_by_role("menuitem", name="Run", exact=True).click()
    lab.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    card = lab.locator(".jp-CodeCell", has_text="scorecard()").last
    card = card.locator(".jp-OutputArea-output")
    card.filter(has_text="total").wait_for(timeout=120_000)
    passed = check(lab, "shard_batch").locator("[role=group]")  # not "In words"
    label = "shard_batch: right, 2 of 2 points"
    assert passed.get_attribute("aria-label") == label
    failed = check(lab, "make_parallel_predict").get_by_role("group").first
    label = "make_parallel_predict: wrong, 0 of 3 points"
    assert failed.get_attribute("aria-label") == label
    words = " ".join(failed.inner_text().split())
    for part in (
        'called make_and_serve({"w": f32[7,5], "b": f32[5]}, f32[24,7], 8)',
        "Device 0 holds [0:24, 0:5] of the result.",
        "expected [0:3, 0:5]",
        "likely all rows are on one device: map over a mesh",
        "again observe(example(1).function, *example(1)",
    ):
        assert part in words
    assert failed.locator("svg").count() == 2  # the layout as it is and should be
    rows = [line.split(maxsplit=4) for line in card.inner_text().strip().splitlines()]
    assert rows[0] == ["shard_batch", "2", "of", "2", "right"]
    assert rows[2] == ["make_parallel_predict", "0", "of", "3", "wrong"]
    assert rows[3] == ["local_sgd_steps", "0", "of", "3", "not attempted yet"]
    assert rows[-1] == ["total", "2", "of", "15"]
    for name, cell in (
        ("3-pass", "shard_batch"),
        ("4-failure", "make_parallel_predict"),
    ):
        check(lab, cell).scroll_into_view_if_needed()
        take_screenshot(lab, name)
    card.scroll_into_view_if_needed()
    take_screenshot(lab, "5-scorecard")


def test_a_key_unfolds_a_picture_in_words(lab):
    cell = lab.locator(".jp-CodeCell", has_text='draw_array(y, "y = pmap(f)(x)")')
    unfolded = cell.locator("details[open]", has_text="device d holds row d")
    assert unfolded.count() == 0
    cell.locator("summary:visible").first.focus()
    lab.keyboard.press("Enter")
    unfolded.first.wait_for()
    take_screenshot(lab, "6-picture-in-words")


def test_side_bars_and_menus_hold_nothing_for_instructors(lab):
    tabs = lab.locator(".jp-SideBar .lm-TabBar-tab")
    titles = [tab.get_attribute("title") for tab in tabs.all()]
    assert "Table of Contents" in titles
    assert [title for title in titles if "assignment" in title.lower()] == []
    assert "Help" in lab.locator(".lm-MenuBar-item").all_inner_texts()
    assert lab.get_by_role("menuitem", name="Nbgrader").count() == 0


def test_nobody_is_asked_about_news(lab):
    assert lab.get_by_text("Jupyter news").count() == 0
    assert lab.locator(".Toastify__toast").count() == 0


def test_terminal_shows_one_line_and_the_address(lab):
    [line, address] = lab.printed  # after all that was opened and run above
    assert line.startswith("Open this address in your browser. Ctrl+C twice ends")
    assert address == f"{lab.address}\n"


def test_no_cell_of_the_page_shows_a_traceback(lab):
    outputs = lab.locator(".jp-OutputArea-output").all_inner_texts()
    assert len(outputs) > 20
    assert not [text for text in outputs if "Traceback" in text]


@pytest.fixture
def port_in_use():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_port_in_use_is_named(port_in_use, tmp_path):
    command = [*LAB, "--port", str(port_in_use)]
    run = subprocess.run(
        command, cwd=ROOT, env=jupyter_env(tmp_path), capture_output=True, text=True
    )
    assert run.returncode == 1
    assert f"because port {port_in_use} is not available" in run.stderr


def test_extension_that_does_not_load_is_named(tmp_path):
    (tmp_path / "faulty_extension.py").touch()
    folder = tmp_path / "config" / "jupyter_server_config.d"
    folder.mkdir(parents=True)
    enabled = {"ServerApp": {"jpserver_extensions": {"faulty_extension": True}}}
    (folder / "faulty.json").write_text(json.dumps(enabled))
    env = jupyter_env(tmp_path) | {"PYTHONPATH": str(tmp_path)}
    printed = []
    command = [*LAB, "--port", str(free_port())]
    with server(command, cwd=ROOT, env=env, printed=printed):
        assert "faulty_extension" in "".join(printed)


def test_without_a_port_another_free_one_is_taken(port_in_use, tmp_path):
    env = jupyter_env(tmp_path) | {"JUPYTER_PORT": str(port_in_use)}  # not 8888
    with server(LAB, cwd=ROOT, env=env) as address:
        assert urlsplit(address).port != port_in_use
