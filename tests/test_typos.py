"""A mistyped word is named, with what may have been meant; it never does anything."""

import pytest
from classes import RIGHT, make_class
from pretended import NAME, pretended, submit

from grader.__main__ import main

__all__ = ["pretended"]  # a fixture


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("grad CLASS", "Did you mean grade?"),
        ("regarde CLASS", "Did you mean regrade?"),
        ("exprot CLASS", "Did you mean export?"),
        ("explian CLASS ada 01", "Did you mean explain?"),
        ("rooster CLASS", "Did you mean roster?"),
        ("new lessn norms --folder x", "Did you mean lesson?"),
        ("grade CLASS --section-name A", "arguments: --section-name A"),
        ("grade CLASS --secton A", "Did you mean --section?"),
        ("grade CLASS --secton=A", "Did you mean --section?"),
        ("grade CLASS --trust", "Did you mean --trusted?"),
        ("grade CLASS --worker 2", "Did you mean --workers?"),
        ("export CLASS --leson 01", "Did you mean --lesson?"),
        ("export CLASS --bonus kep", "Did you mean keep?"),
        ("regrade CLASS --app", "arguments: --app. Did you mean --apply?"),
        ("purge CLASS ada --aply", "Did you mean --apply?"),
        ("course CLASS --updat", "Did you mean --update?"),
        ("build --foldr x", "Did you mean --folder?"),
        ("lab --prot 1", "Did you mean --port?"),
    ],
)
def test_a_command_or_an_option(words, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(words.split())
    assert said in capsys.readouterr().err


@pytest.fixture
def folder(tmp_path, pretended):
    make_class(tmp_path)
    submit(tmp_path, "ada", **RIGHT)
    people = tmp_path / "class" / "grading" / "people.csv"
    people.write_text('id,name,section\nada,"Lovelace, Ada",Monday\n')
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["grade", "CLAS"], "is no course folder"),
        (["grade", "CLASS", "x.zip"], '"x.zip" is no file and no folder'),
        (["grade", "CLASS", "--section", "Mondy"], 'no section "Mondy". It has: Monda'),
        (["explain", "CLASS", "adda", "1"], "Similar: Lovelace, Ada (ada)."),
        (["explain", "CLASS", "Lovelac, Ada", "1"], "Similar: Lovelace, Ada (ada)."),
        (["explain", "CLASS", "ada", "o1"], f'no lesson "o1". It has: {NAME}'),
        (["regrade", "CLASS", "adaa"], "Similar: Lovelace, Ada (ada)."),
        (["regrade", "CLASS", "--exercise", "doubel"], "There are: double, negate"),
        (["purge", "CLASS", "adda"], "Similar: Lovelace, Ada (ada)."),
        (["export", "CLASS", "--lesson", "l"], f'no lesson "l". It has: {NAME}'),
        (["export", "CLASS", "--template", "x.csv"], "x.csv does not exist"),
        (["return", "CLASS", "1", "--format", "moddle"], "choose zip, moodle"),
        (["roster", "CLASS", "x.csv"], "x.csv does not exist"),
        (["course", "NEW", "--lessons", "1,2"], "Write several with spaces: 01 02."),
        (["course", "NEW", "--lessons", "7"], 'There is no lesson "7". The lessons'),
        (["course", "NEW", "--timezone", "Berlin"], '"Berlin" is no time zone'),
        (["course", "NEW", "--with", "OWN"], "holds no lesson: name the folder"),
        (["check", "02", "maskedmean"], "Its exercises are masked_mean"),
        (["check", "collectives"], "The lessons are: 01_pmap_spmd"),
        (["build", "3x"], "The lessons are: 01_pmap_spmd"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_name_or_a_file(folder, words, said, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    places = {"CLASS": "class", "CLAS": "clas", "NEW": "new", "OWN": "own"}
    assert main([places.get(word, word) for word in words]) == 2
    assert said in capsys.readouterr().err
    assert not (folder / "new").exists()
