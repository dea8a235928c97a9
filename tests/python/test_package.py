"""The package installs with pip, and the examples of the documents run."""
import importlib.util
import re
import shutil
import subprocess
import sys

from common import PACKAGE, ROOT, Case, predicted_database, scratch


class Package(Case):
    def test_it_installs_with_pip_and_then_looks_up(self):
        for module in ("pip", "setuptools", "wheel"):
            if importlib.util.find_spec(module) is None:
                self.skipTest(f"python3 has no {module}")
        source, target = scratch() / "source", scratch() / "site"
        shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
        done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-build-isolation",
                               "--no-deps", "--no-compile", "--target", str(target), str(source)],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        installed = {path.relative_to(target) for path in (target / "fuseplan").rglob("*") if path.is_file()}
        wanted = {path.relative_to(PACKAGE) for path in (PACKAGE / "fuseplan").rglob("*")
                  if path.is_file() and "__pycache__" not in path.parts}
        self.assertEqual(installed, wanted)
        self.assertEqual(self.runs("import fuseplan; print(fuseplan.__file__)", package=target),
                         str(target / "fuseplan" / "__init__.py"))


class Documents(Case):
    def run_examples(self, with_torch):
        shutil.copy(predicted_database(), scratch() / "plans.db")
        n_run = 0
        for document in (ROOT / "README.md", PACKAGE / "README.md"):
            for block in re.findall(r"^```python\n(.*?)^```$", document.read_text(), re.M | re.S):
                if ("torch" in block) == with_torch:
                    self.assertTrue(self.runs(block.replace("/tmp/", f"{scratch()}/")), block)
                    n_run += 1
        self.assertGreaterEqual(n_run, 1 if with_torch else 2)

    def test_the_examples_without_torch_run(self):
        self.run_examples(False)

    def test_the_examples_with_torch_run(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("python3 has no torch")
        self.run_examples(True)
