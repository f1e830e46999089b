"""The behavior that users of ``ratio`` rely on."""

from __future__ import annotations

from .ratio import Ratio, from_continued, gcd, mean


def common_divisors() -> object:
    return [gcd(12, 18), gcd(-12, 18), gcd(7, 0), gcd(0, 5), gcd(0, 0), gcd(13, 8), gcd(4, -6)]


def fractions_are_in_lowest_terms() -> object:
    return [repr(Ratio(6, 8)), repr(Ratio(-6, 8)), repr(Ratio(6, -8)), repr(Ratio(-6, -8)), repr(Ratio(0, 5))]


def whole_numbers_have_no_denominator() -> object:
    return repr(Ratio(8, 4)), repr(Ratio(-3)), Ratio(8, 4).bottom


def a_denominator_of_zero_is_refused() -> object:
    refused = []
    for top, bottom in ((1, 0), (0, 0)):
        try:
            refused.append(repr(Ratio(top, bottom)))
        except ZeroDivisionError as error:
            refused.append(str(error))
    return refused


def fractions_are_parsed() -> object:
    return [repr(Ratio.parse(text)) for text in ("3/4", "-10/4", "7", "1.25", "-0.5", " 2.50 ", "10.05")]


def equality_of_fractions() -> object:
    return Ratio(1, 2) == Ratio(2, 4), Ratio(1, 2) == Ratio(1, 3), Ratio(1) == 1, len({Ratio(1, 2), Ratio(3, 6)})


def order_of_fractions() -> object:
    return [Ratio(1, 2) < Ratio(2, 3), Ratio(1, 2) < Ratio(1, 2), Ratio(-1, 2) < Ratio(1, 3), Ratio(3) < Ratio(5, 2)]


def order_of_equal_fractions() -> object:
    return [Ratio(1, 2) <= Ratio(2, 4), Ratio(2, 3) <= Ratio(1, 2), Ratio(-1) <= Ratio(0)]


def sorted_fractions() -> object:
    values = [Ratio(1, 2), Ratio(-3, 4), Ratio(5, 8), Ratio(0), Ratio(7, 12)]
    return [repr(value) for value in sorted(values)], repr(max(values))


def sums() -> object:
    return repr(Ratio(1, 2) + Ratio(1, 3)), repr(Ratio(1, 2) + Ratio(1, 2)), repr(Ratio(1, 6) + Ratio(-2, 3))


def differences() -> object:
    return repr(Ratio(1, 2) - Ratio(1, 3)), repr(Ratio(1, 3) - Ratio(1, 2)), repr(-Ratio(2, 5))


def products() -> object:
    return repr(Ratio(2, 3) * Ratio(3, 4)), repr(Ratio(-1, 2) * Ratio(5)), repr(Ratio(0) * Ratio(7, 9))


def quotients() -> object:
    return repr(Ratio(1, 2) / Ratio(3, 4)), repr(Ratio(3) / Ratio(-6)), repr(Ratio(0) / Ratio(2))


def powers() -> object:
    return [repr(Ratio(2, 3) ** exponent) for exponent in (-2, -1, 0, 1, 3)]


def floors() -> object:
    return [Ratio(top, 4).floor() for top in (-9, -8, -1, 0, 3, 4, 9)]


def rounding() -> object:
    return [Ratio(top, 4).round() for top in (-7, -6, -5, -2, -1, 0, 1, 2, 5, 6, 7)]


def continued_fractions() -> object:
    return Ratio(415, 93).continued(), Ratio(3).continued(), Ratio(-7, 3).continued(), Ratio(0).continued()


def continued_fractions_and_back() -> object:
    return [repr(from_continued(terms)) for terms in ([4, 2, 6, 7], [3], [-3, 1, 2], [0, 5])]


def finite_decimals() -> object:
    return [Ratio(top, bottom).decimal() for top, bottom in ((1, 2), (-1, 8), (5, 1), (123, 100), (-6, 2))]


def periodic_decimals() -> object:
    return [Ratio(top, bottom).decimal() for top, bottom in ((1, 3), (1, 6), (22, 7), (-5, 12), (1, 90))]


def means() -> object:
    return repr(mean([Ratio(1, 2), Ratio(1, 3), Ratio(1, 6)])), repr(mean([])), repr(mean([Ratio(5)]))
