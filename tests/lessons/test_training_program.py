"""Lesson 5's program keeps its log, and says what the reference program says."""

import json
import sys

import pytest
from solved_lesson import ROOT, SOURCES, Lesson

sys.path.append(str(ROOT / "solutions" / "references"))

import pipeline_step


@pytest.fixture(scope="module")
def lesson():
    return Lesson(SOURCES[4]).namespace


def test_the_log_keeps_lines_of_steps_that_are_taken_again_in_a_file_beside(
    lesson, tmp_path, capsys
):
    lines = [json.dumps({"step": step}) for step in (1, 2, 3, 4)] + ['{"step": 5, "lo']
    log, beside = tmp_path / "metrics.jsonl", tmp_path / "metrics.cut.jsonl"
    log.write_text("\n".join(lines))
    for step in (3, 2):
        lesson["open_log"](lesson["config_of"](tmp_path), step)
    assert log.read_text().splitlines() == lines[:2]
    assert beside.read_text().splitlines() == [*lines[3:], lines[2]]
    moved = "Moved the lines of later steps from metrics.jsonl to metrics.cut.jsonl."
    assert moved in capsys.readouterr().out


@pytest.mark.parametrize(
    "settings",
    [{"save_every": 0}, {"keep": 0}, {"num_microbatches": -1}, {"batch_size": 60}],
    ids=str,
)
def test_bad_settings_are_named_in_the_words_of_the_reference_program(settings, lesson):
    changes = {"num_microbatches": 2} | settings
    with pytest.raises(ValueError) as ours:
        lesson["check_config"](lesson["config_of"]("unused", **changes))
    config = pipeline_step.Config("unused", steps_per_call=1, **changes)
    with pytest.raises(pipeline_step.RunError) as theirs:
        pipeline_step.check_config(config)
    assert f"{ours.value}.".lower() == str(theirs.value).lower()
