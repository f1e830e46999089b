"""A calculator with variables, by recursive descent over the tokens of ``tokens``."""

from __future__ import annotations

from collections.abc import Callable

from .tokens import CalculatorError, Token, tokenize

FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max, "abs": abs, "sum": lambda *all: sum(all)}


class Calculator:
    """A calculator that remembers assigned variables; ``last`` is the value of the last line."""

    def __init__(self) -> None:
        self.variables: dict[str, float] = {"last": 0.0}
        self._tokens: list[Token] = []
        self._next = 0

    def run(self, line: str) -> float:
        """Return the value of one line, which may be an assignment.

        Raises:
            CalculatorError: the line cannot be parsed or computed; then no variable changes.
        """
        self._tokens, self._next = tokenize(line), 0
        name = ""
        if len(self._tokens) > 2 and self._tokens[0].kind == "name" and self._tokens[1].text == "=":
            name = self._tokens[0].text
            self._next = 2
        value = self._sum()
        if self._peek().kind != "end":
            raise CalculatorError(f"{self._peek().text!r} at {self._peek().position} is unexpected")
        if name:
            self.variables[name] = value
        self.variables["last"] = value
        return value

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self, *texts: str) -> str:
        """Consume the next symbol if it is one of ``texts``, and return it; otherwise return an empty string."""
        token = self._peek()
        if token.kind == "symbol" and token.text in texts:
            self._next += 1
            return token.text
        return ""

    def _sum(self) -> float:
        value = self._product()
        while symbol := self._take("+", "-"):
            other = self._product()
            value = value + other if symbol == "+" else value - other
        return value

    def _product(self) -> float:
        value = self._sign()
        while symbol := self._take("*", "/", "%"):
            other = self._sign()
            if symbol == "*":
                value = value * other
            elif other == 0:
                raise CalculatorError("division by zero")
            else:
                value = value / other if symbol == "/" else value % other
        return value

    def _sign(self) -> float:
        """Parse a sign. It binds less tightly than a power: -2^2 is -4."""
        if self._take("-"):
            return -self._sign()
        return self._sign() if self._take("+") else self._power()

    def _power(self) -> float:
        base = self._atom()
        return base ** self._sign() if self._take("^") else base

    def _atom(self) -> float:
        token = self._peek()
        self._next += 1
        if token.kind == "number":
            return float(token.text)
        if token.text == "(":
            value = self._sum()
            self._close()
            return value
        if token.kind == "name" and self._take("("):
            return self._call(token)
        if token.kind == "name" and token.text in self.variables:
            return self.variables[token.text]
        raise CalculatorError(f"{token.text or 'the end'!r} at {token.position} has no value")

    def _call(self, name: Token) -> float:
        if name.text not in FUNCTIONS:
            raise CalculatorError(f"there is no function {name.text!r}")
        values = [self._sum()]
        while self._take(","):
            values.append(self._sum())
        self._close()
        if name.text == "abs" and len(values) != 1:
            raise CalculatorError(f"abs takes one value, not {len(values)}")
        return float(values[0] if len(values) == 1 and name.text != "abs" else FUNCTIONS[name.text](*values))

    def _close(self) -> None:
        if not self._take(")"):
            raise CalculatorError(f"missing bracket at {self._peek().position}")
