"""What a browser asks a site and what it is answered, without any network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, urlencode


def number(text: str) -> int:
    """The whole number, below a hundred million, that somebody sent; 0, which no row has, for anything else."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0


class Values:
    """Names and values of a query or a form, in order; a name may come several times.

    Args:
        pairs: names with values.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self.pairs = tuple(pairs)

    @classmethod
    def of(cls, text: str) -> Values:
        """Read from ``a=1&b=2``; what cannot be read is left out."""
        try:
            return cls(parse_qsl(text, keep_blank_values=True, max_num_fields=500))
        except ValueError:
            return cls()

    def get(self, name: str, default: str = "") -> str:
        """The last value with this name, without spaces around it."""
        return next((value.strip() for key, value in reversed(self.pairs) if key == name), default)

    def all(self, name: str) -> list[str]:
        """All values with this name."""
        return [value for key, value in self.pairs if key == name]

    def without(self, *names: str) -> Values:
        """The same without some names."""
        return Values((key, value) for key, value in self.pairs if key not in names)

    def __str__(self) -> str:
        return urlencode(self.pairs)


@dataclass(frozen=True, slots=True)
class Request:
    """What a browser asks.

    Args:
        method: ``GET`` or ``POST``.
        host: of the site, such as ``shop.test``.
        path: begins with ``/``, without the query.
        query: of the address.
        form: what was sent.
        cookies: by name.
    """

    method: str
    host: str
    path: str
    query: Values = field(default_factory=Values)
    form: Values = field(default_factory=Values)
    cookies: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Response:
    """What a site answers.

    Args:
        body: HTML.
        status: of HTTP.
        location: where to go instead, for a redirection.
        cookies: to be set; an empty value takes one away.
    """

    body: str = ""
    status: int = HTTPStatus.OK
    location: str = ""
    cookies: Mapping[str, str] = field(default_factory=dict)
