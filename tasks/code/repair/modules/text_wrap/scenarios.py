"""The behavior that users of ``text_wrap`` rely on."""

from __future__ import annotations

from .text_wrap import center, justify, paragraph, shorten, table, wrap

TEXT = "the quick brown fox jumps over the lazy dog"


def lines_are_as_long_as_the_width_allows() -> object:
    return wrap(TEXT, 10)


def a_line_may_fill_the_width() -> object:
    return wrap("ab cd ef", 5), wrap("ab cd ef", 4)


def long_words_are_cut() -> object:
    return wrap("a extraordinarily b", 6)


def a_word_twice_as_wide_is_cut_once() -> object:
    return wrap("abcdefgh", 4)


def text_without_words_has_no_lines() -> object:
    return wrap("", 5), wrap("   ", 5)


def a_width_of_zero_is_refused() -> object:
    try:
        return wrap("a", 0)
    except ValueError as error:
        return str(error)


def a_width_of_one() -> object:
    return wrap("ab c", 1)


def gaps_on_the_left_are_wider() -> object:
    return justify("a b c d", 12)


def gaps_are_even_where_possible() -> object:
    return justify("one two three", 15), justify("a b", 6)


def a_single_word_is_not_justified() -> object:
    return justify("alone", 10), justify("", 10)


def lines_that_are_too_long_are_not_justified() -> object:
    return justify("too long", 4), justify("a b c", 5)


def the_last_line_of_a_paragraph_is_not_justified() -> object:
    return paragraph(TEXT, 16)


def paragraphs_may_be_indented() -> object:
    return paragraph("  " + TEXT, 14, first=3)


def lines_are_centered() -> object:
    return center("ab", 6), center("ab", 5), center("ab", 1)


def lines_are_centered_with_another_fill_character() -> object:
    return center("x", 4, "-")


def short_text_is_not_cut() -> object:
    return shorten("a  b\nc", 5), shorten("abc", 3)


def long_text_is_cut_after_a_word() -> object:
    return shorten(TEXT, 16), shorten(TEXT, 18), shorten(TEXT, 19)


def text_is_shortened_where_no_word_fits() -> object:
    return shorten(TEXT, 5), shorten(TEXT, 3), shorten(TEXT, 2)


def text_is_shortened_with_another_mark() -> object:
    return shorten(TEXT, 12, mark="~")


def columns_of_a_table_are_aligned() -> object:
    return table([["name", "price"], ["apple", "12"], ["fig", "3", "sold"]])


def tables_with_another_gap() -> object:
    return table([["a", "b"], ["ccc", "d"]], gap=1), table([])
