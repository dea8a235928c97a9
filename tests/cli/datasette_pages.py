#!/usr/bin/env python3
"""Asks Datasette for every page that the metadata speaks of; one line for each that is not as it says.

usage: datasette_pages.py plans.db metadata.json     run by a python that has datasette
"""
import asyncio
import html
import json
import sys
import urllib.parse

from datasette.app import Datasette

# Words that every query with parameters is asked with.
GIVEN = {"problem": "n=3072 k=768", "days": "0"}


def pages_of(metadata):
    """(path, title that the page must show)"""
    yield "/", metadata["title"]
    plans = metadata["databases"]["plans"]
    yield "/plans", plans["title"]
    for name, table in plans["tables"].items():
        yield f"/plans/{name}", table["title"]
        if table.get("about_url"):
            yield f"/plans/{name}{table['about_url']}", table["title"]
        for key in ("sort", "sort_desc"):
            if key in table:
                yield f"/plans/{name}?_{key}={table[key]}", table["title"]
    for name, query in plans["queries"].items():
        yield f"/plans/{name}?{urllib.parse.urlencode(GIVEN)}", query["title"]


async def ask(database, metadata):
    datasette = Datasette([database], metadata=metadata)
    await datasette.invoke_startup()
    n = 0
    for path, title in pages_of(metadata):
        answer = await datasette.client.get(path)
        n += 1
        if answer.status_code != 200:
            print(f"{path}: {answer.status_code}: {answer.text[:200]}")
        elif title not in html.unescape(answer.text):
            print(f"{path}: '{title}' is not on it")
    tables = metadata["databases"]["plans"]["tables"]
    for name, table in tables.items():
        answer = await datasette.client.get(f"/plans/{name}.json?_shape=objects&_size=1")
        facets = set(answer.json().get("facet_results", {}))
        for facet in set(table.get("facets", [])) - facets:
            print(f"/plans/{name}: no facet {facet}")
    print(f"{n} pages", file=sys.stderr)


def main():
    with open(sys.argv[2], encoding="utf-8") as file:
        asyncio.run(ask(sys.argv[1], json.load(file)))


main()
