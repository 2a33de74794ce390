"""torch.utils.benchmark's measurements and tables, from fixed times, on flambeau and PyTorch."""

import pytest


@pytest.fixture
def measure(torch):
    """Build a measurement of given seconds."""
    benchmark = pytest.importorskip(f"{torch.__name__}.utils.benchmark")
    common = benchmark if torch.__name__ == "flambeau" else benchmark.utils.common

    def build(seconds, number=10, **task):
        spec = common.TaskSpec(task.pop("stmt", "f(x)"), "pass", **task)
        return benchmark.Measurement(number, [number * s for s in seconds], spec)

    build.benchmark = benchmark
    return build


STEADY = [1.0e-3, 1.004e-3, 1.02e-3, 1.0e-3]
SPREAD = [2e-3, 3e-3, 4e-3, 5e-3, 9e-3]

TABLE = """\
[----------------- dot -----------------]
                    |  mul/sum  |  bmm
1 threads: ------------------------------
      one           |      1.0  |     3.0
      two           |   1000.0  |
4 threads: ------------------------------
      one           |           |  4000.0

Times are in milliseconds (ms).
"""


def test_a_table_has_a_row_for_each_task_and_a_column_for_each_description(measure):
    results = [
        measure([1e-3], label="dot", sub_label="one", description="mul/sum"),
        measure([1.0], label="dot", sub_label="two", description="mul/sum"),
        measure([3e-3], label="dot", sub_label="one", description="bmm"),
        measure([4.0], label="dot", sub_label="one", description="bmm", num_threads=4),
    ]
    table = measure.benchmark.Compare(results)
    shown = [line.replace(" ", "").replace("-", "") for line in str(table).splitlines()]
    assert shown == [line.replace(" ", "").replace("-", "") for line in TABLE.splitlines()]


def test_tables_by_label_with_trimmed_digits_spread_and_colours(measure):
    table = measure.benchmark.Compare([
        measure(STEADY, label="a", description="x", sub_label="s"),
        measure(SPREAD, label="a", description="y", sub_label="s"),
        measure(SPREAD, label="a", description="x", sub_label="t"),
        measure([5e-6], label="b", description="x"),
    ])
    table.trim_significant_figures()
    table.highlight_warnings()
    table.colorize(rowwise=True)
    text = str(table)
    assert "(! 50%)" in text and "\033[92m\033[1m" in text and "\033[2m\033[91m" in text
    assert "Times are in milliseconds (ms).\n(! XX%) Measurement has high variance" in text
    assert "Times are in microseconds (us)." in text


def test_measurements_say_what_pytorchs_say(measure):
    steady, spread = measure(STEADY, label="a", sub_label="s", description="d"), measure(SPREAD)
    assert (steady.significant_figures, spread.significant_figures) == (2, 1)
    assert not steady.has_warnings and spread.has_warnings
    assert spread.iqr == pytest.approx(2e-3) and spread.median == pytest.approx(4e-3)
    assert repr(steady).splitlines()[1:] == [
        "a: s", "d", "  Median: 1.00 ms", "  IQR:    0.01 ms (1.00 to 1.01)",
        "  4 measurements, 10 runs per measurement, 1 thread"]
    assert "WARNING: Interquartile range is 50.0% of the median" in repr(spread)
    merged = measure.benchmark.Measurement.merge([steady, steady, spread])
    assert [len(m.times) for m in merged] == [8, 5]


def test_other_objects_are_refused(measure):
    text = "Expected an instance of `Measurement`, got <class 'int'>"
    with pytest.raises(ValueError, match=text):
        measure.benchmark.Compare([3])


def test_statements_may_be_indented(measure):
    timer = measure.benchmark.Timer("""
        y = x + 1
        y * 2
    """, globals={"x": 1}, label="sum")
    assert timer.timeit(5).task_spec.title == "sum"
