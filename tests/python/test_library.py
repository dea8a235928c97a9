"""The structures are the C compiler's, the library is found where it is said to be."""
import ctypes
import os
import re
import shutil
import subprocess

from common import BUILD, PACKAGE, ROOT, Case, python, scratch

import fuseplan
from fuseplan import _library


class Layouts(Case):
    def test_sizes_and_offsets_are_those_of_the_header(self):
        lines = []
        for name, mirror in _library.STRUCTURES.items():
            lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
            for member, *_ in mirror._fields_:
                whole = f"((struct {name} *)0)->{member}"
                lines.append(f'printf("{name}.{member} %zu %zu\\n", offsetof(struct {name}, {member}), '
                             f"sizeof({whole}));")
        source, program = scratch() / "layout.c", scratch() / "layout"
        source.write_text('#include "tuner/lib/fuseplan.h"\n#include <stdio.h>\nint main(void) {\n'
                          + "\n".join(lines) + "\nreturn 0;\n}\n")
        subprocess.run(["cc", "-std=c11", f"-I{ROOT}", str(source), "-o", str(program)], check=True)
        wanted = subprocess.run([str(program)], check=True, text=True, stdout=subprocess.PIPE).stdout
        got = []
        for name, mirror in _library.STRUCTURES.items():
            got.append(f"{name} {ctypes.sizeof(mirror)}")
            for member, *_ in mirror._fields_:
                at = getattr(mirror, member)
                got.append(f"{name}.{member} {at.offset} {at.size}")
        self.assertEqual(got, wanted.splitlines())
        self.assertGreater(len(got), 50)

    def test_every_member_of_the_header_is_mirrored(self):
        header = (ROOT / "tuner/lib/fuseplan.h").read_text()
        header = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
        for name, body in re.findall(r"struct (fuseplan_\w+) \{(.*?)\};", header, flags=re.S):
            members = []
            for declaration in body.split(";"):
                words = re.sub(r"\[\w+\]", "", declaration).replace(",", " ").split()
                members += words[1:]
            mirror = _library.STRUCTURES[name]
            self.assertEqual([field[0] for field in mirror._fields_], members, name)

    def test_names_stand_in_the_order_of_the_enumerations(self):
        header = (ROOT / "tuner/lib/fuseplan.h").read_text()
        for enumeration, prefix, names in (
                ("kind", "", _library.KINDS), ("dtype", "", _library.DTYPES),
                ("act", "ACT_", _library.ACTS), ("tier", "TIER_", _library.TIERS),
                ("provenance", "", _library.PROVENANCES), ("match", "MATCH_", _library.MATCHES)):
            body = re.search(r"enum fuseplan_%s \{(.*?)\};" % enumeration, header, re.S).group(1)
            body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
            self.assertEqual([name.strip() for name in body.split(",")],
                             [f"FUSEPLAN_{prefix}{name.upper()}" for name in names])

    def test_every_status_has_its_exception(self):
        header = (ROOT / "tuner/lib/fuseplan.h").read_text()
        body = re.search(r"enum fuseplan_status \{(.*?)\};", header, re.S).group(1)
        numbers = {int(number) for number in re.findall(r"= (\d+)", body)} - {0}
        self.assertEqual(numbers, set(fuseplan.errors.BY_STATUS))
        for number, error in fuseplan.errors.BY_STATUS.items():
            with self.assertRaises(error) as raised:
                fuseplan.errors.raise_for(number, "so it is")
            self.assertEqual((raised.exception.status, str(raised.exception)), (number, "so it is"))

    def test_one_version_everywhere(self):
        project = (PACKAGE / "pyproject.toml").read_text()
        self.assertIn(f'version = "{fuseplan.__version__}"', project)
        self.assertEqual(_library.library().version, fuseplan.__version__)


WHERE = "from fuseplan import _library; print(_library.library().path)"


class Places(Case):
    def test_the_environment_decides_first(self):
        copy = scratch() / "elsewhere.so"
        shutil.copy(BUILD / "libfuseplan.so.0", copy)
        self.assertEqual(self.runs(WHERE, FUSEPLAN_LIBRARY=str(copy)), str(copy))

    def test_a_package_below_a_prefix_finds_the_library_of_that_prefix(self):
        packages = scratch() / "usr/lib/python3/site-packages"
        shutil.copytree(PACKAGE / "fuseplan", packages / "fuseplan")
        library = scratch() / "usr/lib/libfuseplan.so.0"
        shutil.copy(BUILD / "libfuseplan.so.0", library)
        self.assertEqual(self.runs(WHERE, package=packages, FUSEPLAN_LIBRARY=None), str(library))

    def test_a_package_in_the_tree_finds_the_build(self):
        if BUILD != ROOT / "build":
            self.skipTest(f"the build is in {BUILD}")
        self.assertEqual(self.runs(WHERE, FUSEPLAN_LIBRARY=None), str(BUILD / "libfuseplan.so.0"))

    def test_otherwise_the_systems_loader_is_asked(self):
        packages = scratch() / "apart"
        shutil.copytree(PACKAGE / "fuseplan", packages / "fuseplan")
        self.assertEqual(self.runs(WHERE, package=packages, FUSEPLAN_LIBRARY=None,
                                   LD_LIBRARY_PATH=str(BUILD)), "libfuseplan.so.0")
        status, output = python(WHERE, package=packages, FUSEPLAN_LIBRARY=None)
        self.assertEqual(status, 1)
        line = output.strip().splitlines()[-1]
        self.assertRegex(line, r"LibraryNotFound: no libfuseplan.so.0: not at .*, the system's "
                               r"loader: run 'make build' .* FUSEPLAN_LIBRARY")

    def test_what_is_no_library_is_refused_in_one_line(self):
        text = scratch() / "text.so"
        text.write_text("no library")
        empty = scratch() / "empty.so"
        subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", str(empty)], check=True)
        for place, why in ((str(text), "cannot be loaded"), ("/nowhere.so", "not at /nowhere.so"),
                           (str(empty), "has no fuseplan_open")):
            status, output = python(WHERE, FUSEPLAN_LIBRARY=place)
            self.assertEqual(status, 1)
            self.assertRegex(output.strip().splitlines()[-1], f"LibraryNotFound: .*{why}")

    def test_importing_loads_no_library(self):
        self.runs("import fuseplan", FUSEPLAN_LIBRARY="/nowhere.so")
        self.assertTrue(os.path.exists(BUILD / "libfuseplan.so.0"))
