"""Reads and writes CSV files, for spreadsheets and for learning management systems."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from pathlib import Path

from grader.atomic_files import write_file
from grader.submissions.clean_text import clean_text

BOM = b"\xef\xbb\xbf"  # by which Excel recognizes UTF-8
MAX_CELL = 2000
DECIMAL = re.compile(r"\s*-?\d+([.,])\d\d?\s*").fullmatch  # 3.00 or, in German, 3,00
# Spreadsheets take these for the start of a formula, in full width too. Where the
# semicolon separates cells, they also do so in the middle of one of ours.
SIGNS = r"=+\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212"
FORMULA = re.compile(rf"^(?=[\t\r\n])|(?:^|(?<=;))(?=\s*[{SIGNS}])")


@dataclasses.dataclass
class Table:
    """A CSV file's cells, and how it writes them.

    Attributes:
        columns: the cells of the first line.
        rows: the other lines, each with as many cells as there are columns, or more.
    """

    columns: list[str]
    rows: list[list[str]]
    delimiter: str = ","
    line_end: str = "\r\n"
    has_bom: bool = False
    decimal: str = "."

    def column(self, *names: str) -> int | None:
        """Returns the place of the first column with one of these names."""
        wanted = {name.casefold() for name in names}
        found = (one.strip().casefold() in wanted for one in self.columns)
        return next((place for place, is_it in enumerate(found) if is_it), None)

    def number(self, value: float) -> str:
        """Writes a number as the file writes numbers."""
        return cell_text(value).replace(".", self.decimal)

    def write(self, path: Path, mode: int = 0o600) -> Path:
        """Replaces a file in one step; the cells are written as they are."""
        text = io.StringIO(newline="")
        form = {"delimiter": self.delimiter, "lineterminator": self.line_end}
        csv.writer(text, **form).writerows([self.columns, *self.rows])
        data = text.getvalue().encode()
        write_file(path, BOM * self.has_bom + data, mode=mode)
        return path


def read_table(path: Path) -> Table:
    """Reads a CSV file, whichever of comma, semicolon and tab separates its cells.

    Raises:
        ValueError: it is missing, a folder, empty, not UTF-8 or damaged.
    """
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist.") from None
    except IsADirectoryError:
        raise ValueError(f"{path} is a folder. Name a CSV file.") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8. Save it again as CSV UTF-8.") from None
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    try:
        rows = [*csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)]
    except csv.Error as error:
        raise ValueError(f"{path} is no CSV file: {error}.") from None
    if not first.strip():
        raise ValueError(f"{path} has no column names in its first line.")
    numbers = {found[1] for row in rows for one in row if (found := DECIMAL(one))}
    return Table(
        columns=rows[0],
        rows=[row + [""] * (len(rows[0]) - len(row)) for row in rows[1:] if row],
        delimiter=delimiter,
        line_end="\r\n" if first.endswith("\r") else "\n",
        has_bom=data.startswith(BOM),
        decimal="," if numbers == {","} else ".",
    )


def cell_text(value: str | float | None) -> str:
    """Writes a number without noise, such as 2.5; nothing for None, which is no 0."""
    if isinstance(value, str):
        return text_cell(value)
    return "" if value is None else f"{value:.10g}"


def text_cell(text: str) -> str:
    """Makes a cell of one line that no spreadsheet takes for a formula."""
    cleaned = FORMULA.sub("'", clean_text(text, MAX_CELL))
    return re.sub(r"[\t\n]+", " ", cleaned)
