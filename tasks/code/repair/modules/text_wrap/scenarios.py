"""What users of ``text_wrap`` rely on."""

from __future__ import annotations

from .text_wrap import centre, justify, paragraph, shorten, table, wrap

TEXT = "the quick brown fox jumps over the lazy dog"


def lines_are_as_long_as_they_may_be() -> object:
    return wrap(TEXT, 10)


def a_line_may_fill_the_width() -> object:
    return wrap("ab cd ef", 5), wrap("ab cd ef", 4)


def long_words_are_cut() -> object:
    return wrap("a extraordinarily b", 6)


def a_word_twice_as_wide_is_cut_once() -> object:
    return wrap("abcdefgh", 4)


def no_words_no_lines() -> object:
    return wrap("", 5), wrap("   ", 5)


def a_width_of_nothing_is_refused() -> object:
    try:
        return wrap("a", 0)
    except ValueError as error:
        return str(error)


def a_width_of_one() -> object:
    return wrap("ab c", 1)


def gaps_on_the_left_are_wider() -> object:
    return justify("a b c d", 12)


def gaps_are_even_where_they_can_be() -> object:
    return justify("one two three", 15), justify("a b", 6)


def one_word_is_not_spread() -> object:
    return justify("alone", 10), justify("", 10)


def what_does_not_fit_stays() -> object:
    return justify("too long", 4), justify("a b c", 5)


def paragraphs_end_ragged() -> object:
    return paragraph(TEXT, 16)


def paragraphs_may_be_indented() -> object:
    return paragraph("  " + TEXT, 14, first=3)


def the_middle_of_a_line() -> object:
    return centre("ab", 6), centre("ab", 5), centre("ab", 1)


def the_middle_with_another_filling() -> object:
    return centre("x", 4, "-")


def short_text_is_kept() -> object:
    return shorten("a  b\nc", 5), shorten("abc", 3)


def long_text_is_cut_after_a_word() -> object:
    return shorten(TEXT, 16), shorten(TEXT, 18), shorten(TEXT, 19)


def not_even_a_word_fits() -> object:
    return shorten(TEXT, 5), shorten(TEXT, 3), shorten(TEXT, 2)


def another_mark() -> object:
    return shorten(TEXT, 12, mark="~")


def columns_are_aligned() -> object:
    return table([["name", "price"], ["apple", "12"], ["fig", "3", "sold"]])


def columns_with_another_gap() -> object:
    return table([["a", "b"], ["ccc", "d"]], gap=1), table([])
