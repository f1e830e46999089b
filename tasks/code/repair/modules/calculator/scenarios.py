"""The behavior that users of ``calculator`` rely on."""

from __future__ import annotations

from .calculator import Calculator
from .tokens import CalculatorError, tokenize


def values(*lines: str) -> list[object]:
    """Return the value or the error of each line, in a new calculator."""
    calculator, results = Calculator(), list[object]()
    for line in lines:
        try:
            results.append(calculator.run(line))
        except CalculatorError as error:
            results.append(str(error))
    return results


def tokens(text: str) -> list[object]:
    """Return the kind, text and position of each token."""
    return [(token.kind, token.text, token.position) for token in tokenize(text)]


def numbers_names_and_symbols() -> object:
    return tokens("x1 = 3.5*(_y+20)")


def spaces_are_skipped() -> object:
    return tokens("  7 \t+ 8 "), tokens("")


def numbers_may_begin_or_end_with_a_point() -> object:
    return tokens(".5 5."), values(".5 + 5.")


def a_number_has_at_most_one_point() -> object:
    return values("1.2.3", ".", "4 + 1..")


def unknown_characters_are_refused() -> object:
    return values("2 $ 3", "2 + é", "#")


def products_before_sums() -> object:
    return values("2 + 3 * 4", "2 * 3 + 4", "10 - 4 / 2")


def operators_apply_from_left_to_right() -> object:
    return values("10 - 4 - 3", "100 / 5 / 2", "17 % 10 % 4")


def brackets_come_first() -> object:
    return values("(2 + 3) * 4", "2 * (3 - (1 - 5))")


def powers_from_right_to_left() -> object:
    return values("2 ^ 3 ^ 2", "2 ^ 3 * 2", "2 ^ -1")


def signs() -> object:
    return values("-2 ^ 2", "--3", "+4", "2 - -3", "-(1 + 2)")


def variables_are_remembered() -> object:
    return values("x = 4", "x * x", "y = x + 1", "x + y")


def the_last_value_is_remembered() -> object:
    return values("last", "3 * 4", "last + 1", "z = last", "last - z")


def undefined_names_are_refused() -> object:
    return values("unknown + 1", "3 +", "", "* 2", "x =")


def unexpected_tokens_are_refused() -> object:
    return values("1 2", "(1) )", "3 = 4", "x = y = 1")


def brackets_must_be_closed() -> object:
    return values("(1 + 2", "max(1, 2", "2 * (3")


def division_by_zero() -> object:
    return values("1 / 0", "1 % 0", "0 / 1", "5 * 0")


def remainders() -> object:
    return values("7 % 3", "-7 % 3", "7.5 % 2")


def functions() -> object:
    return values("max(1, 5, 3)", "min(4, 2)", "abs(-3)", "sum(1, 2, 3)")


def functions_of_one_value() -> object:
    return values("max(7)", "min(2 + 3)", "sum(4)", "abs(1, 2)")


def unknown_functions_are_refused() -> object:
    return values("sqrt(4)", "x(1)")


def errors_leave_variables_unchanged() -> object:
    return values("x = 3", "x = 1 / 0", "x", "last")
