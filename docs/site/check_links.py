#!/usr/bin/env python3
"""Checks the links of a built site: every link to a file of the site, every anchor and every image exists.

check_links.py FOLDER
"""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ('id', 'name') and value:
                self.anchors.add(value)
            if name in ('href', 'src', 'data') and value and tag != 'base':
                self.links.append(value)
            if name == 'srcset' and value:
                self.links += [part.split()[0] for part in value.split(',')]


folder = Path(sys.argv[1]).resolve()
pages = {path: Page(path.read_text(encoding='utf-8')) for path in folder.rglob('*.html')}
broken = checked = 0
for path, page in sorted(pages.items()):
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        checked += 1
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        anchor = unquote(parts.fragment)
        if not target.is_file() or not target.is_relative_to(folder):
            fault = 'no such file'
        elif anchor and target in pages and anchor not in pages[target].anchors:
            fault = 'no such section'
        else:
            continue
        broken += 1
        print(f'{path.relative_to(folder)}: {link}: {fault}', file=sys.stderr)
if not pages or not checked:
    sys.exit(f'{folder}: no page with a link')
print(f'{len(pages)} pages, {checked} links, {broken} broken')
sys.exit(1 if broken else 0)
