"""A reading of a page with the standard parser: its elements, and whether they nest."""

from dataclasses import dataclass, field
from functools import lru_cache
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr", "source", "base"}


@dataclass
class Element:
    """One element with its attributes and the text directly inside it."""

    tag: str
    attributes: dict[str, str]
    text: list[str] = field(default_factory=list)


class Reader(HTMLParser):
    """Collects elements and complains about a tag that closes another."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.open: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {key: value or "" for key, value in attrs})
        assert len(attrs) == len(element.attributes), f"repeated attribute in <{tag}>"
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1].tag == tag, f"</{tag}> inside <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open:
            self.open[-1].text.append(data)


@lru_cache(maxsize=4)
def read(page: str) -> list[Element]:
    """Elements in document order.

    Raises:
        AssertionError: If tags do not nest.
    """
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open, f"<{reader.open[-1].tag}> is never closed"
    return reader.elements


def of(elements: list[Element], *tags: str) -> list[Element]:
    """The elements of these tags."""
    return [element for element in elements if element.tag in tags]
