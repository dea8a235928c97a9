#!/usr/bin/env python3
"""What the tests of the page of plans read from it.

page.py check FILE.html    tags in balance, ids unique, links to them, nothing from outside; one line a finding
page.py rows FILE.html     the cells of each plan that is shown, one line a plan, tabs between them
page.py sorted FILE.html   key and direction of the column that aria-sort names
page.py image FILE.png     width, height, number of colours, brightness (0 to 255) of the first pixel
"""
import html.parser
import re
import struct
import sys
import zlib

VOID = {"meta", "input", "br", "hr", "img", "link"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.findings = [], []
        self.ids, self.links, self.tags = [], [], []
        self.rows, self.heads, self.cell = [], [], None
        self.raw = ""

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.append((tag, given))
        if len(given) != len(attributes):
            self.find(f"<{tag}> names an attribute twice")
        if tag not in VOID:
            self.open.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        for name, value in attributes:
            if name in ("href", "src", "action", "data", "srcset"):
                self.links.append(value)
            if name.startswith("on"):
                self.find(f"<{tag}> has a handler {name}")
        if tag == "th" and given.get("scope") not in ("row", "col"):
            self.find("a th without scope")
        if tag == "th" and "data-key" in given:
            self.heads.append(given)
        if tag == "tbody":
            self.rows.append({"cells": [], "is_shown": "hidden" not in given})
        if tag in ("td", "th") and self.rows and "colspan" not in given:
            self.cell = ""

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.find(f"</{tag}> closes {self.open[-1:]}")
        else:
            self.open.pop()
        if tag in ("td", "th") and self.cell is not None:
            self.rows[-1]["cells"].append(self.cell.strip())
            self.cell = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data
        if self.open and self.open[-1] in ("style", "script"):
            self.raw += data

    def find(self, what):
        self.findings.append(f"{self.getpos()[0]}: {what}")

    def close(self):
        super().close()
        if self.open:
            self.find(f"never closed: {self.open}")
        for one in {one for one in self.ids if self.ids.count(one) > 1}:
            self.find(f"id {one} stands twice")
        for link in self.links:
            if not link.startswith("#") or link[1:] not in self.ids:
                self.find(f"link to {link}")
        for word in re.findall(r"https?:|url\(|@import|import\(|fetch\(|XMLHttpRequest", self.raw):
            self.find(f"style or script holds {word}")
        for row in self.rows:
            if len(row["cells"]) != len(self.heads):
                self.find(f"a row of {len(row['cells'])} cells below {len(self.heads)} heads")


def read_page(path):
    page = Page()
    with open(path, encoding="utf-8") as file:
        page.feed(file.read())
    page.close()
    return page


def read_image(path):
    """Width, height, colours and the first pixel's brightness of an 8-bit RGB or RGBA file."""
    with open(path, "rb") as file:
        data = file.read()
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert depth == 8 and colour in (2, 6), "not 8-bit RGB"
            size = 3 if colour == 2 else 4
        elif kind == b"IDAT":
            packed += body
        at += length + 12
    lines, stride = zlib.decompress(packed), width * size
    above, colours, first = bytearray(stride), set(), None
    for y in range(height):
        how = lines[y * (stride + 1)]
        line = bytearray(lines[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride if how else 0):
            left = line[i - size] if i >= size else 0
            corner = above[i - size] if i >= size else 0
            line[i] = (line[i] + (left, above[i], (left + above[i]) // 2,
                                  paeth(left, above[i], corner))[how - 1]) & 255
        colours.update(bytes(line[i:i + 3]) for i in range(0, stride, size))
        first = first or sum(line[:3]) // 3
        above = line
    return width, height, len(colours), first


def paeth(left, up, corner):
    guess = left + up - corner
    return min((left, up, corner), key=lambda one: abs(guess - one))


def main():
    command, path = sys.argv[1:]
    if command == "image":
        print(*read_image(path))
        return 0
    page = read_page(path)
    if command == "check":
        print(*page.findings, sep="\n")
        return 1 if page.findings else 0
    if command == "sorted":
        for head in page.heads:
            if "aria-sort" in head:
                print(head["data-key"], head["aria-sort"])
        return 0
    for row in page.rows:
        if row["is_shown"]:
            print("\t".join(row["cells"]))
    return 0


sys.exit(main())
