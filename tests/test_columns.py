"""Text tables whose columns stand in groups."""

import pytest

from gemmlab.columns import Column, folded, grouped, known, lines, significant

NAME = Column("", "name", lambda row: row[0])


def test_a_source_spans_its_columns_and_every_figure_ends_under_its_header():
    columns = (NAME, Column(" a ", "x", lambda row: row[1]), Column(" a ", "long", lambda row: row[2]))
    assert lines(columns, [("b", "1", "22"), ("cc", "33", "4")]) == [
        "      -- a ---",
        "name   x  long",
        "   b   1    22",
        "  cc  33     4",
    ]


def test_a_group_is_as_wide_as_its_source():
    source = " wider than x "
    over, headers, _ = lines((NAME, Column(source, "x", lambda row: row[1])), [("b", "1")])
    assert over.endswith(source) and len(over) == len(headers) == len("name  ") + len(source)


def test_groups_of_one_source_apart_from_each_other_stay_apart():
    columns = [Column(source, "x", lambda row: "") for source in (" a ", " b ", " a ")]
    assert lines(columns, [])[0].split() == ["a", "b", "a"]


def test_rows_stand_under_the_name_of_their_group_and_long_names_end_where_their_figures_are():
    groups = [
        ("first, 8 x 8 x 8", [("short", "1", "22")]),
        ("second", [("a name that is folded, as it is long", "3", "4")]),
    ]
    assert grouped(("", "ms", "a header that is folded too"), groups) == [
        "                                    a header that is",
        "                                ms        folded too",
        "first, 8 x 8 x 8",
        "  short                          1                22",
        "second",
        "  a name that is folded, as it",
        "  is long                        3                 4",
    ]


def test_a_dash_stands_for_what_is_not_known():
    assert (known(None, ".1f"), known(2.25, ".2f"), known(0, "d")) == ("-", "2.25", "0")


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (30, "30.0"),
        (8.9, "8.90"),
        (0.5056, "0.506"),
        (9.996, "10.0"),
        (130, "130"),
        (2922.4, "2,922"),
        (0, "0.00"),
        (-1.5, "-1.50"),
        (None, "-"),
    ],
)
def test_a_figure_has_three_significant_digits_with_their_zeros_and_all_before_the_point(figure, text):
    assert significant(figure) == text


def test_digits_that_were_not_noted_are_not_written():
    assert (significant(0.5, decimals=1), significant(25.9, decimals=1)) == ("0.5", "25.9")
    assert significant(7.3, digits=4) == "7.300"


def test_groups_that_do_not_fit_stand_below_and_name_their_rows_again():
    columns = (NAME, Column(" a ", "x", lambda row: row[1]), Column(" b ", "y", lambda row: row[2]))
    rows = [("k", "1", "2")]
    assert folded(columns, rows, 80) == lines(columns, rows)
    (top, bottom) = (lines(columns[:2], rows), lines((NAME, columns[2]), rows))
    assert folded(columns, rows, len(top[-1])) == [*top, "", *bottom]


def test_a_group_wider_than_the_page_stands_alone_and_whole():
    columns = (NAME, Column(" a ", "a header of some length", lambda row: row[1]))
    assert folded(columns, [("k", "1")], 5) == lines(columns, [("k", "1")])
