"""What the tests share: the built program and library, databases made once, processes of their own."""
import atexit
import contextlib
import functools
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = (ROOT / os.environ.get("BUILD", "build")).resolve()
PACKAGE = ROOT / "tools" / "python"
# The smallest problem of the paper's rows.
G1 = {"kind": "gemm_chain", "m": 128, "n": 512, "k": 32, "l": 256}

os.environ["FUSEPLAN_LIBRARY"] = str(BUILD / "libfuseplan.so.0")
os.environ["FUSEPLAN_SYSTEM_DB"] = ""
os.environ["FUSEPLAN_PROFILES"] = str(ROOT / "profiles")


@functools.lru_cache(None)
def scratch() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="fuseplan-python-"))
    atexit.register(shutil.rmtree, folder, True)
    return folder


def fuseplan(*arguments):
    return subprocess.run([BUILD / "fuseplan", *map(str, arguments)], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout


@functools.lru_cache(None)
def shipped_database() -> str:
    """The shipped plans: measured, without machine code."""
    path = scratch() / "shipped.db"
    for file in sorted((ROOT / "profiles" / "plans").glob("*.jsonl")):
        fuseplan("import", file, "--db", path)
    return str(path)


@functools.lru_cache(None)
def predicted_database() -> str:
    """A predicted plan of G1, with machine code where this machine has NVRTC."""
    path = scratch() / "predicted.db"
    fuseplan("tune", ROOT / "profiles" / "workloads" / "paper.yaml", "--only", "G1", "--device", "h200",
             "--measure", "model", "--top-k", 2, "--db", path, "--quiet")
    return str(path)


def as_if_measured() -> str:
    """The same plan, said to be measured: what runs is tested, not how fast it is."""
    path = scratch() / "measured.db"
    shutil.copy(predicted_database(), path)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE plans SET provenance = 'measured', measured_us = 1, library_us = 2")
    return str(path)


def python(code, cwd=None, package=PACKAGE, **environment):
    """Runs a program in a process of its own -> (exit code, stdout and stderr). None unsets."""
    merged = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    merged = {name: value for name, value in merged.items() if value is not None}
    done = subprocess.run([sys.executable, "-c", code], env=merged, cwd=cwd, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


class Case(unittest.TestCase):
    longMessage = True

    def runs(self, code, **environment):
        """The output of a program that must end well."""
        status, output = python(code, **environment)
        self.assertEqual(status, 0, output)
        return output.strip()
