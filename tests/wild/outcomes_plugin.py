"""A pytest plugin: a line of JSON for each test that ended, into the file $WILD_OUT."""

import json
import os


def emit(id, outcome, message="", seconds=0.0):
    with open(os.environ["WILD_OUT"], "a") as file:
        line = {"ev": "end", "id": id, "outcome": outcome, "msg": message[-700:], "s": seconds}
        print(json.dumps(line), file=file)


def pytest_runtest_logreport(report):
    if report.when != "call" and report.outcome == "passed":
        return
    outcome = "error" if report.when != "call" and report.outcome == "failed" else report.outcome
    text = str(report.longrepr) if report.outcome == "failed" else ""
    emit(report.nodeid, outcome, text, report.duration)


def pytest_collectreport(report):
    if report.failed:
        emit(report.nodeid, "error", str(report.longrepr))
