"""Runs pyverbs' own tests and prints one line of JSON per test: id, outcome, and reason or traceback.

It stands for run_tests.py in the folder of the tests. The options of run_tests.py work.
"""

import json
import os
import sys
import unittest

folder = sys.argv.pop(1)
os.chdir(folder)
sys.path[:0] = [folder, os.path.dirname(folder)]

from args_parser import parser  # in the folder of the tests

parser.parse_args()
import tests


class Result(unittest.TestResult):
    def put(self, test, outcome, why=""):
        print(json.dumps({"id": test.id(), "outcome": outcome, "why": why}), flush=True)

    def addSuccess(self, test):
        self.put(test, "ok")

    def addSkip(self, test, reason):
        self.put(test, "skipped", reason)

    def addError(self, test, err):
        self.put(test, "error", self._exc_info_to_string(err, test))

    def addFailure(self, test, err):
        self.put(test, "failure", self._exc_info_to_string(err, test))

    def addExpectedFailure(self, test, err):
        self.put(test, "failed as expected")

    def addUnexpectedSuccess(self, test):
        self.put(test, "failure", "it was expected to fail, and passed")


suite = unittest.defaultTestLoader.loadTestsFromModule(tests)
suite.run(Result())
