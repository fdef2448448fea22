"""Tables as libraries of data frames read them."""

from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
import viaduct as via

TABLES = ["messages", "links", "series", "latency"]


@pytest.fixture(scope="module")
def result() -> via.Result:
    return via.study("torus-1024", set={"run.until": "0.2 s", "run.warmup": "0.05 s"}).run(seed=1)


@pytest.mark.parametrize("name", TABLES)
def test_arrow_reads_what_the_run_directory_holds(
    name: str, result: via.Result, tmp_path: Path
) -> None:
    result.save(tmp_path / "run")
    stored = pyarrow.parquet.read_table(tmp_path / "run" / f"{name}.parquet")
    table = result.table(name)
    read = pyarrow.table(table)
    assert len(table) == read.num_rows == stored.num_rows > 0
    assert table.columns == read.column_names == stored.column_names[2:]
    for column in table.columns:
        assert read[column].to_pylist() == stored[column].to_pylist(), column
    for column, unit, meaning in table.dictionary():
        metadata = read.schema.field(column).metadata
        assert metadata == {b"unit": unit.encode(), b"meaning": meaning.encode()}


@pytest.mark.parametrize("name", TABLES)
def test_polars_reads_the_same_as_arrow(name: str, result: via.Result) -> None:
    table = result.table(name)
    assert polars.DataFrame(table).rows() == polars.DataFrame(pyarrow.table(table)).rows()


@pytest.mark.parametrize("name", TABLES)
def test_pandas_and_duckdb_read_the_same_as_arrow(name: str, result: via.Result) -> None:
    given = result.table(name)
    read = pyarrow.table(given)
    frame = pandas.DataFrame.from_arrow(given)
    assert list(frame.columns) == given.columns
    for column in given.columns:
        whole = [None if pandas.isna(value) else value for value in frame[column]]
        assert whole == read[column].to_pylist(), column
    # By the name of the variable.
    relation = duckdb.sql("SELECT * FROM given")
    assert relation is not None
    assert relation.columns == given.columns
    assert relation.fetchall() == [tuple(row.values()) for row in read.to_pylist()]


def test_a_stream_is_taken_once_and_a_table_often(result: via.Result) -> None:
    capsule = result.links.__arrow_c_stream__()
    assert "arrow_array_stream" in repr(capsule)
    # Nobody takes it: it frees what it holds.
    del capsule
    table = result.links
    assert pyarrow.table(table) == pyarrow.table(table)


def test_rows_lack_what_was_not_measured() -> None:
    # Everything is warm-up, so that no latency is measured, and the distribution is empty.
    result = via.study(
        "four-hop", set={"traffic.size": "64 B", "run.warmup": "0.9 s", "run.until": "1 s"}
    ).run()
    assert len(result.latency_distribution) == (201 if result.latency_us.count else 0)


def test_a_wrong_name_says_what_there_is(result: via.Result) -> None:
    with pytest.raises(KeyError, match="messages, links, series, queues, latency"):
        result.table("link")


def test_rows_are_read_without_any_library(result: via.Result) -> None:
    read = pyarrow.table(result.links).to_pylist()
    assert list(result.links) == read
    assert result.links[3] == read[3]
    with pytest.raises(IndexError, match="rows"):
        result.links[len(read)]


@pytest.mark.parametrize("name", TABLES)
def test_the_constructor_of_pandas_and_schemas_take_a_table(name: str, result: via.Result) -> None:
    table = result.table(name)
    frame = pandas.DataFrame(table)
    assert list(frame.columns) == table.columns
    assert len(frame) == len(table)
    assert pyarrow.schema(table) == pyarrow.table(table).schema


def test_a_notebook_shows_tables_of_html_with_everything_escaped() -> None:
    title = "<script>alert(1)</script> & more"
    net = via.Network.torus([3, 3], rate="1 Gbit/s", title=title)
    traffic = via.Traffic(size="1 KiB", rate=1000, to=via.uniform())
    study = net.study(traffic, until="20 ms")
    result = study.run()
    sweep = via.sweep(study, rate=[100, 200], progress=False)
    for shown in (net, study, result, result.links, result.why(), sweep):
        html = shown._repr_html_()
        assert "<script>" not in html, html
        assert html.startswith(("<table>", "<pre>")), html
        assert html.count("<table>") == html.count("</table>")
    assert "mean latency, us" in result._repr_html_()
    assert "<td>s0-0</td><td>s2-0</td>" in result.links._repr_html_()
    assert "&lt;script&gt;" in net._repr_html_()
