"""Requests from a browser and responses of a site, without any network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, urlencode


def number(text: str) -> int:
    """Parse a whole number below a hundred million; return 0, which is never an id, for anything else."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0


class Values:
    """Names and values of a query or a form, in order; a name may occur several times.

    Args:
        pairs: pairs of name and value.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self.pairs = tuple(pairs)

    @classmethod
    def of(cls, text: str) -> Values:
        """Parse ``a=1&b=2``; text that cannot be parsed is skipped."""
        try:
            return cls(parse_qsl(text, keep_blank_values=True, max_num_fields=500))
        except ValueError:
            return cls()

    def get(self, name: str, default: str = "") -> str:
        """Return the last value with this name, stripped."""
        return next((value.strip() for key, value in reversed(self.pairs) if key == name), default)

    def all(self, name: str) -> list[str]:
        """Return all values with this name."""
        return [value for key, value in self.pairs if key == name]

    def without(self, *names: str) -> Values:
        """Return the same without some names."""
        return Values((key, value) for key, value in self.pairs if key not in names)

    def __str__(self) -> str:
        return urlencode(self.pairs)


@dataclass(frozen=True, slots=True)
class Request:
    """A request from a browser.

    Args:
        method: ``GET`` or ``POST``.
        host: host name of the site, such as ``shop.test``.
        path: path that starts with ``/``, without the query.
        query: query of the URL.
        form: fields of the form.
        cookies: cookies by name.
    """

    method: str
    host: str
    path: str
    query: Values = field(default_factory=Values)
    form: Values = field(default_factory=Values)
    cookies: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Response:
    """A response of a site.

    Args:
        body: HTML.
        status: HTTP status.
        location: target of a redirect.
        cookies: cookies to set, by name; an empty value deletes one.
    """

    body: str = ""
    status: int = HTTPStatus.OK
    location: str = ""
    cookies: Mapping[str, str] = field(default_factory=dict)
