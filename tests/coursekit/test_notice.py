"""An error that is meant for the learner is a text, in the learner's language."""

from pathlib import Path

import nbclient
import nbformat

from coursekit import i18n, setup
from coursekit.context import current_context
from coursekit.notice import Notice

LESSONS = Path(setup.__file__).resolve().parents[1]


def test_a_notice_speaks_the_learners_language(monkeypatch):
    text = "This is Python 3.10; the course needs 3.11 to 3.14. "
    text += "Use one of these (in JupyterLab: Kernel > Change Kernel)."
    monkeypatch.setattr(current_context(), "language", "en")
    assert str(Notice(text)) == text
    monkeypatch.setattr(current_context(), "language", "ko")
    assert str(Notice(text)) == i18n.translated(text, "ko") != text


def test_a_notebook_shows_the_text_of_a_notice_and_no_traceback():
    sources = [
        f"import sys; sys.path.insert(0, {str(LESSONS)!r})",
        "from coursekit import notice, setup",
        "raise notice.Notice('The first line.\\n  the second')",
        "setup.check_python((3, 10))",
    ]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = nbclient.NotebookClient(notebook, kernel_name="python3", allow_errors=True)
    client.execute()
    _, _, [notice], [refusal] = (cell.outputs for cell in notebook.cells)
    assert notice.traceback == ["The first line.", "  the second"]
    assert refusal.traceback == [refusal.evalue]
    assert refusal.evalue.startswith("This is Python 3.10;")
