"""A pytest plugin: a line of JSON for each test that ended, into the file $WILD_OUT.

With $WILD_EVERY = n it runs a sample, about one of n tests: always the same ones.
"""

import json
import os
import zlib


def emit(id, outcome, message="", seconds=0.0):
    with open(os.environ["WILD_OUT"], "a") as file:
        line = {"ev": "end", "id": id, "outcome": outcome, "msg": message[-700:], "s": seconds}
        print(json.dumps(line), file=file)


def pytest_collection_modifyitems(config, items):
    every = int(os.environ.get("WILD_EVERY", "1"))
    chosen = [item for item in items if zlib.crc32(item.nodeid.encode()) % every == 0]
    items[:] = chosen


def pytest_runtest_logreport(report):
    if report.when != "call" and report.outcome == "passed":
        return
    outcome = "error" if report.when != "call" and report.outcome == "failed" else report.outcome
    text = str(report.longrepr) if report.outcome == "failed" else ""
    emit(report.nodeid, outcome, text, report.duration)


def pytest_collectreport(report):
    if report.failed:
        emit(report.nodeid, "error", str(report.longrepr))
