"""Lists the files in what an LMS lets one download: a folder, a zip, zips in a zip."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from grader.submissions.lms_names import shown, wrappers
from grader.submissions.safe_reading import (
    MAX_FILE,
    Budget,
    Unreadable,
    entries,
    is_ignored,
    read_file,
    refuse_kind,
)

MAX_TOTAL = 16 << 30  # bytes that come out of one download's archives
MAX_INNER = 1 << 30  # bytes that come out of one learner's archive
# An LMS's archive, and in it a learner's own.
MAX_DEPTH = 2


@dataclasses.dataclass(frozen=True)
class Found:
    """A file in a download.

    Attributes:
        parts: its path there; an archive counts as a folder.
        time: when it was handed in, as far as that is known, in seconds since 1970.
        read: returns its bytes, or raises `Unreadable`.
        depth: how many archives it lies in.
        path: where it lies on the disk, if it does.
    """

    parts: tuple[str, ...]
    time: float
    read: Callable[[], bytes]
    depth: int = 0
    path: Path | None = None

    @property
    def is_archive(self) -> bool:
        """Tells whether it is an archive that is to be looked into."""
        return self.parts[-1].lower().endswith(".zip") and self.depth < MAX_DEPTH


def files_in(
    download: Path, lessons: Sequence[str], problems: list[str]
) -> Iterator[Found]:
    """Lists a download's files, those in archives too; adds to `problems`.

    A file can be read until the next one is asked for.
    """
    if download.is_dir():
        found = list(files_in_folder(download, problems))
    elif download.is_file():
        found = [found_at(download, ())]
    else:
        problems.append(f"{shown(str(download))} is no file and no folder.")
        return
    for file in unwrapped(found, lessons):
        yield from expanded(file, lessons, problems)


def unwrapped(found: list[Found], lessons: Sequence[str]) -> list[Found]:
    """Takes off the folders around a whole class."""
    paths = [f.parts for f in found if is_notebook(f)]
    paths += [(*f.parts, "") for f in found if f.is_archive]
    count = wrappers(paths, lessons)
    return [
        dataclasses.replace(f, parts=f.parts[min(count, len(f.parts) - 1) :])
        for f in found
    ]


def expanded(
    file: Found, lessons: Sequence[str], problems: list[str]
) -> Iterator[Found]:
    """Lists an archive's files; a learner's without a notebook stands for itself."""
    if not file.is_archive:
        yield file
        return
    with contextlib.ExitStack() as stack:
        try:
            inner = files_in_archive(file, stack)
        except Unreadable as problem:
            if file.depth == 0:
                line = f"{shown('/'.join(file.parts))} {problem}."
                problems.append(f"{line} Download it again, or ask for it.")
                return
            inner = []
        if file.depth and not any(is_notebook(f) or f.is_archive for f in inner):
            yield dataclasses.replace(file, depth=MAX_DEPTH)
            return
        for found in inner if file.depth else unwrapped(inner, lessons):
            yield from expanded(found, lessons, problems)


def files_in_archive(file: Found, stack: contextlib.ExitStack) -> list[Found]:
    """Lists an archive's files below its own name.

    What a learner's own archive says of time does not count, but when it was handed in.
    """
    if file.path is not None:  # an LMS's archive may be larger than the memory
        budget, source = Budget(MAX_TOTAL), stack.enter_context(open(file.path, "rb"))
    else:
        budget, source = Budget(MAX_INNER), file.read()
    return [
        Found(
            file.parts + entry.parts,
            file.time if file.depth else entry.time or file.time,
            functools.partial(entry.read, MAX_FILE, budget),
            file.depth + 1,
        )
        for entry in entries(source)
        if not (file.depth and entry.problem)
    ]


def is_notebook(file: Found) -> bool:
    """Tells whether a file is named as a notebook."""
    return file.parts[-1].lower().endswith(".ipynb")


def files_in_folder(folder: Path, problems: list[str]) -> Iterator[Found]:
    """Lists the ordinary files below a folder; links are named, not followed."""
    for root, folders, names in os.walk(folder):
        here = Path(root)
        links = sorted(name for name in folders if (here / name).is_symlink())
        folders[:] = sorted({*folders} - {*links})
        for name in [*links, *sorted(names)]:
            path = here / name
            parts = path.relative_to(folder).parts
            if is_ignored(parts):
                continue
            try:
                refuse_kind(os.lstat(path).st_mode)
            except Unreadable as problem:
                problems.append(f"{shown('/'.join(parts))} {problem}: not taken.")
            else:
                yield found_at(path, parts[:-1])


def found_at(path: Path, folders: tuple[str, ...]) -> Found:
    """Describes a file on the disk."""
    read = functools.partial(read_file, path, MAX_FILE)
    return Found((*folders, path.name), path.stat().st_mtime, read, path=path)
