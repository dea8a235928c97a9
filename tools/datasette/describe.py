#!/usr/bin/env python3
"""Writes what db/SCHEMA.md says of tables and columns into tools/datasette/metadata.json.

The columns are those of db/sql; views take the words of the column that they show. A column that
SCHEMA.md does not describe, or describes in vain, ends it with 1 and a line for each.
usage: describe.py [--check]     --check: writes nothing, 1 when the file would change
"""
import json
import pathlib
import re
import sqlite3
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
METADATA = ROOT / "tools/datasette/metadata.json"
# Columns of views that go by another name than in their table.
RENAMED = {
    "problem": ("problems", "text"),
    "problem_key": ("problems", "key"),
    "device": ("device_classes", "name"),
    "device_class_key": ("device_classes", "key"),
    "kernel": ("kernels", "name"),
    "run_key": ("runs", "key"),
    "has_cubin": ("kernels", "cubin"),
}
VIEWED = ("plans", "kernels", "candidates", "envelopes")


def plain(text):
    return text.strip().replace("`", "").replace("\\|", "|")


def read_schema(path):
    """{table: (what it is, {column: meaning})}, from the sections that hold a table of columns."""
    tables = {}
    for section in re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.M)[1:]:
        name, _, body = section.partition("\n")
        if "| column | meaning |" not in body:
            continue
        words, rows = body.split("| column | meaning |")
        columns = {}
        for names, meaning in re.findall(r"^\| (`.*?`) \| (.*) \|$", rows, flags=re.M):
            names = re.findall(r"`(\w+)`", names)
            parts = meaning.split(";") if len(names) > 1 else [meaning]
            if len(parts) != len(names):
                parts = [meaning] * len(names)
            columns.update(zip(names, map(plain, parts)))
        tables[name.strip()] = (" ".join(plain(words).split()), columns)
    return tables


def read_columns():
    """{table or view: [column]} of a new database."""
    db = sqlite3.connect(":memory:")
    for file in sorted((ROOT / "db/sql").glob("*.sql")):
        db.executescript(file.read_text(encoding="utf-8"))
    names = [row[0] for row in db.execute(
        "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'")]
    return {name: [row[1] for row in db.execute(f"PRAGMA table_info({name})")] for name in names}


def meaning_of(tables, name, column):
    if name in tables:
        return tables[name][1].get(column)
    table, original = RENAMED.get(column, (None, column))
    for one in [table] if table else VIEWED:
        if original in tables[one][1]:
            return tables[one][1][original]
    return None


def main():
    tables, columns, findings = read_schema(ROOT / "db/SCHEMA.md"), read_columns(), []
    metadata = json.loads(METADATA.read_text(encoding="utf-8"))
    described = metadata["databases"]["plans"]["tables"]
    for name, (words, meanings) in tables.items():
        described.setdefault(name, {})["description"] = words
        findings += [f"db/SCHEMA.md: {name}.{column}: no such column"
                     for column in meanings if column not in columns.get(name, [])]
    for name, its_columns in columns.items():
        described.setdefault(name, {})["columns"] = found = {}
        for column in its_columns:
            found[column] = meaning_of(tables, name, column)
            if not found[column]:
                findings.append(f"db/SCHEMA.md: {name}.{column} is not described")
    findings += [f"{METADATA.name}: {name}: no such table" for name in described if name not in columns]
    text = json.dumps(metadata, indent=2, ensure_ascii=False) + "\n"
    if not findings and "--check" in sys.argv[1:] and text != METADATA.read_text(encoding="utf-8"):
        findings.append(f"{METADATA.name}: not as db/SCHEMA.md says: run tools/datasette/describe.py")
    print(*findings, sep="\n", end="\n" if findings else "")
    if not findings and "--check" not in sys.argv[1:]:
        METADATA.write_text(text, encoding="utf-8")
    return 1 if findings else 0


sys.exit(main())
