#!/usr/bin/env python3
"""Runs tests/python/test_*.py under unittest and prints TAP. BUILD may be set (build).
usage: tests/python/run.py [NAME...]     test names as unittest takes them: test_store.Lookups"""
import os
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # the tree stays as it is
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


class Tap(unittest.TestResult):
    """One line a test, in the words of its name."""

    def __init__(self):
        super().__init__()
        self.number = 0

    def say(self, test, verdict, note=""):
        self.number += 1
        name = str(getattr(test, "_testMethodName", test)).replace("test_", "", 1).replace("_", " ")
        print(f"{verdict} {self.number} - {type(test).__name__}: {name}{note}", flush=True)

    def complain(self, test, error):
        self.say(test, "not ok")
        for line in self._exc_info_to_string(error, test).splitlines()[-25:]:
            print(f"# {line}", flush=True)

    def addSuccess(self, test):
        self.say(test, "ok")

    def addSkip(self, test, reason):
        self.say(test, "ok", f" # SKIP {reason}")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.complain(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self.complain(test, err)


def main():
    sys.path[:0] = [str(ROOT / "tools" / "python"), str(HERE)]
    os.chdir(ROOT)
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(sys.argv[1:]) if sys.argv[1:] else loader.discover(str(HERE))
    result = Tap()
    suite.run(result)
    print(f"1..{result.number}")
    return 0 if result.wasSuccessful() and result.number else 1


if __name__ == "__main__":
    sys.exit(main())
