"""The inside of ``apis``, the module by which a program in a sandbox calls tools; the host adds a function per tool.

This text is run in the sandbox's interpreter, so it needs nothing but the standard library of Python 3.8, and what it
says is believed by nobody: every call is checked again outside.
"""

import json
import sys
from types import ModuleType


class ApiError(Exception):
    """A tool refused a call; the text says what to change."""


def call(tool, given, left_out):  # type: ignore[no-untyped-def]
    """The value that a tool returns.

    Args:
        tool: its name.
        given: arguments by name.
        left_out: the value that stands for an omitted argument, by name.
    """
    import turnwise_host  # type: ignore[import-not-found]  # it is there where this is run

    arguments = {
        name: value
        for name, value in given.items()
        if not (name in left_out and type(value) is type(left_out[name]) and value == left_out[name])
    }
    try:
        request = json.dumps({"tool": tool, "arguments": arguments}, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ApiError(tool + ": an argument is not valid JSON: " + str(error)) from None
    try:
        answer = json.loads(turnwise_host.ask(request))
    except turnwise_host.Refused as refused:
        raise ApiError(str(refused)) from None
    if "error" in answer:
        raise ApiError(answer["error"])
    return answer["value"]


def publish(name, about, functions):  # type: ignore[no-untyped-def]
    """Make the module that programs see.

    Args:
        name: the name of the module.
        about: the text that ``help`` shows.
        functions: each with the names by which it is found, such as ``("mail", "search")``, and after all of them also
            by one name, such as ``mail_search``.
    """
    main = sys.modules[name] = ModuleType(name, about)
    main.ApiError, main.__path__, main.__all__ = ApiError, [], ["ApiError"]  # type: ignore[attr-defined]
    ApiError.__module__ = name
    for path, _, function in functions:
        module = main
        for part in path[:-1]:
            if not hasattr(module, part):
                below = ModuleType(module.__name__ + "." + part)
                below.__path__, below.__all__ = [], []  # type: ignore[attr-defined]
                sys.modules[below.__name__] = below
                module.__all__.append(part)
                setattr(module, part, below)
            module = getattr(module, part)
        module.__all__.append(path[-1])
        setattr(module, path[-1], function)
        function.__name__ = function.__qualname__ = path[-1]
        function.__module__ = module.__name__
    for _, flat, function in functions:
        if not hasattr(main, flat):
            setattr(main, flat, function)
    return main
