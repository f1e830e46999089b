"""The behavior that users of ``csv_text`` rely on."""

from __future__ import annotations

from .csv_text import TableError, column, read_records, read_rows, totals, write_cell, write_records, write_rows

SALES = "town,item,amount\nOslo,nails,3\nRome,nails,4.5\nOslo,glue,\nRome,wood,1\n"


def refusal(text: str, records: bool = False) -> object:
    """Return the rows or records of a text, or the line and message of the error."""
    try:
        return read_records(text) if records else read_rows(text)
    except TableError as error:
        return error.line, str(error)


def rows_and_cells() -> object:
    return read_rows("a,b\n1,2\n"), read_rows("a,b\n1,2"), read_rows("")


def empty_cells() -> object:
    return read_rows(",\n,,x\n"), read_rows("a,"), read_rows("\n\n")


def quoted_separators() -> object:
    return read_rows('"a,b",c\n')


def quoted_line_ends() -> object:
    return read_rows('"two\nlines",x\ny,z')


def doubled_quotes() -> object:
    return read_rows('"say ""hi""",""""\n')


def quoted_empty_cells() -> object:
    return read_rows('""'), read_rows('"",""\n')


def a_quote_inside_a_cell_is_a_character() -> object:
    return read_rows('5" pipe,x\n')


def line_ends_of_other_systems() -> object:
    return read_rows('a,b\r\n"c",d\r\n')


def another_separator() -> object:
    return read_rows('a;b,c;"d;e"\n', separator=";")


def quotes_must_be_closed() -> object:
    return refusal('a,b\n"c,d\ne'), refusal('"')


def nothing_follows_a_quote() -> object:
    return refusal('a\n\n"b"c,d'), refusal('"a" ,b')


def records_by_name() -> object:
    return read_records(" name ,age\nAnn,7\nBob,9\n"), read_records(""), read_records("a,b\n")


def missing_cells_are_empty() -> object:
    return read_records("a,b,c\n1\n\n1,2,3\n,\n")


def too_many_cells() -> object:
    return refusal("a,b\n1,2\n1,2,3\n", records=True), refusal("a,a\n1,2\n", records=True)


def cells_are_quoted_where_necessary() -> object:
    return [write_cell(cell) for cell in ("a", "a,b", 'a"b', "a\nb", " a", "a ", "", "a b", "a\rb")]


def cells_for_another_separator() -> object:
    return write_cell("a,b", ";"), write_cell("a;b", ";")


def rows_are_written() -> object:
    return write_rows([["a", "b,c"], ["", 'd"']]), write_rows([]), write_rows([["x", "y"]], separator="|")


def written_rows_can_be_read_again() -> object:
    rows = [["a", 'b"c', "d\ne"], ["", " f ", "g,h"]]
    return read_rows(write_rows(rows)) == rows


def records_are_written_under_all_names() -> object:
    return write_records([{"a": "1"}, {"b": "2", "a": "3"}, {}]), write_records([])


def numbers_of_a_column() -> object:
    return column(read_records(SALES), "amount"), column([{"a": " "}, {"a": "2"}], "a")


def sums_by_group() -> object:
    return totals(read_records(SALES), "town", "amount"), totals(read_records(SALES), "item", "amount")
