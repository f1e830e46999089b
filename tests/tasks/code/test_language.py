"""Forbidden parts of submitted source are found by reading it, before any of it runs."""

from __future__ import annotations

import pytest

from turnwise.tasks.code.language import PURE, Language, as_in, objections

OUTSIDE = {
    "a module": "import os",
    "part of one": "from os import path",
    "everything of one": "from math import *",
    "a module inside another": "import collections.sys",
    "a hidden module of another": "from collections import _sys as sys; sys.modules",
    "a relative one": "from . import driver",
    "a built-in that runs text": "eval('1')",
    "one that is only named": "x = [exec]",
    "attributes by name": "getattr(f, 'x')",
    "attributes by a library": "from operator import attrgetter",
    "a special attribute": "f.__globals__",
    "a special name": "__builtins__",
    "a special attribute as text": "x = '__globals__'",
    "a frame of a generator": "g.gi_frame.f_back",
    "a frame of an error": "error.__traceback__.tb_frame",
    "a pattern": "match x:\n    case A(__class__=y): pass",
    "a pattern by computed names": "match f:\n    case Probe(names): pass",
    "a class of computed names": "P = type('P', (), {'__mat' + 'ch_args__': ()})",
    "what makes such classes": "kind = type",
    "a class of classes": "class M(type): pass",
    "a metaclass": "class M(metaclass=N): pass",
    "a hook": "class A:\n    def __instancecheck__(cls, x): return True",
    "a property with the name of one": "class A:\n    @property\n    def __globals__(self): return {}",
    "attributes copied by name": "import functools\nfunctools.update_wrapper(A(), f, updated=('__glob' + 'als__',))",
    "the same as a decorator": "from functools import wraps as w\nw(f, ('__glob' + 'als__',))(A())",
    "letters that only look different": "ｅｘｅｃ('1')",
    "the counter": "__work__ = [0]",
    "what is no source": "def f(:",
}


@pytest.mark.parametrize("source", OUTSIDE.values(), ids=OUTSIDE)
def test_what_leads_out_is_named(source: str) -> None:
    assert objections(source.encode(), PURE)


def test_plain_algorithms_are_within_it() -> None:
    source = (
        "from __future__ import annotations\nimport heapq, math\nfrom collections import deque\n"
        "from collections.abc import Iterable\nclass Heap:\n    __slots__ = ('_items',)\n"
        "    def __init__(self): self._items = []; print(type(self))\n    def __len__(self): return len(self._items)\n"
        "def f(x: Iterable[int]):\n    try:\n        return [*map(math.sqrt, x)], sorted(x, key=lambda y: -y)\n"
        "    except ValueError as error:\n        return str(error)\n"
    )
    assert objections(source.encode(), PURE) == ()


def test_objections_say_where() -> None:
    assert objections(b"x = 1\nimport os\nopen('f')\n", PURE) == ("line 2 imports os", "line 3 uses open")


@pytest.mark.parametrize(
    "source", [b"# coding: utf-7\nx = 1\n", b"\xff\xfex", b"# coding: latin-1\nx = '\xe9'\n", b"x = '\xff'\n"]
)
def test_what_python_would_read_otherwise_is_refused(source: bytes) -> None:
    assert objections(source, PURE)


def test_a_changed_file_may_use_what_it_used() -> None:
    original = "import sys, json\nfrom .tokens import Token\ndef f(): return getattr(sys, 'path'), open('x')\n"
    language = as_in(original)
    assert objections(original.encode(), language) == ()
    assert objections(original.replace("'path'", "'argv'").encode(), language) == ()
    assert objections((original + "import os\n").encode(), language) == ("line 4 imports os",)
    assert objections((original + "from .other import x\n").encode(), language) == ("line 4 imports .other",)
    assert objections((original + "sys.settrace(None)\n").encode(), language) == ("line 4 uses settrace",)


def test_methods_with_special_names_can_be_forbidden() -> None:
    source = b"class A:\n    def __eq__(self, other): return True\n"
    assert objections(source, Language(frozenset())) == ()
    assert objections(source, Language(frozenset(), methods=False)) == ("line 2 defines __eq__",)
