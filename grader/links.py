"""Proves that a folder of HTML pages is whole, and asks nothing of any other host."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself, unlike the address of a link that somebody clicks.
LOADED = {"data", "poster", "src", "srcset"}
LOADING = {"dns-prefetch", "icon", "modulepreload", "preconnect", "prefetch"}
LOADING |= {"manifest", "preload", "stylesheet"}
IN_STYLES = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""")


class Page(HTMLParser):
    """One page.

    Attributes:
        ids: what a fragment may name.
        links: addresses that it shows.
        loads: addresses that a browser fetches to show it.
    """

    def __init__(self, text: str):
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = IN_STYLES.findall("".join(styles(text)))
        self.feed(text)
        self.close()

    def handle_starttag(
        self, tag: str, attributes: list[tuple[str, str | None]]
    ) -> None:
        """Takes in a tag."""
        found = {key: value or "" for key, value in attributes}
        self.ids |= {found[key] for key in ("id", "name") if key in found}
        self.loads += [found[key] for key in LOADED & found.keys()]
        self.loads += IN_STYLES.findall(found.get("style", ""))
        if "href" in found:
            loads = tag == "link" and LOADING & {*found.get("rel", "").split()}
            (self.loads if loads else self.links).append(found["href"])


def styles(text: str) -> Iterator[str]:
    """Yields a page's own style sheets."""
    for found in re.finditer(r"(?s)<style.*?</style>", text):
        yield found[0]


def problems(site: Path) -> list[str]:
    """Lists links that lead nowhere, and what would be loaded from another host."""
    read = functools.cache(lambda path: Page(path.read_text(encoding="utf-8")))
    found = []
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        if name.startswith("_static/"):  # a theme's templates, which are no pages
            continue
        for address in read(path).loads:
            if is_external(address):
                found.append(f"{name} loads {address} from another host.")
        for address in dict.fromkeys(read(path).links + read(path).loads):
            if is_external(address) or address.startswith(("data:", "mailto:")):
                continue
            parts = urlsplit(address)
            target = path.parent / unquote(parts.path) if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            fragment = unquote(parts.fragment)
            if not target.resolve().is_relative_to(site.resolve()):
                found.append(f"{name} links to {address}, outside of the site.")
            elif not target.is_file():
                found.append(f"{name} links to {address}, which does not exist.")
            elif fragment and target.suffix == ".html":
                if fragment not in read(target).ids:
                    found.append(f"{name} links to {address}: no such place there.")
    for path in sorted(site.rglob("*.css")):
        name = path.relative_to(site).as_posix()
        for address in IN_STYLES.findall(path.read_text(encoding="utf-8")):
            if is_external(address):
                found.append(f"{name} loads {address} from another host.")
    return found


def is_external(address: str) -> bool:
    """Tells whether an address names a host."""
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in ("http", "https")
