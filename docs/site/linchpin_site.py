"""Adapts the pages of the repository to the site.

- Writes a page for each public header, from its head comment and from Doxygen's XML.
- Writes the navigation from the groups of the front page, and reports a page that the front page does not name.
- Replaces links to files that are no pages: a public header becomes its page of the API, any other file a page with its
  text, a folder its README or a list.
- Copies images of HTML blocks, and adapts links in them.
- Makes labels of equations in the API reference links to the theory.
- Repairs the theme as Debian 12 packages it.
"""
import html
import itertools
import logging as standard_logging
import os
import posixpath
import re
from glob import glob
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

log = logging.getLogger(__name__)
root = Path(os.environ['LINCHPIN_DOCS_ROOT'])
front = 'docs/index'
theory = 'docs/explanation/theory'

# Folder of headers, and the library to which they belong.
libraries = [
    ('plugin/include', 'The core, `linchpin::core`'),
    ('adapters/bullet/include', 'The adapter for Bullet, `linchpin::bullet` and `linchpin::bullet-float64`'),
    ('adapters/minimal/include', 'The minimal adapter, `linchpin::minimal`'),
    ('tools/scene/include', 'Scene files, `linchpin::scene`'),
    ('tools/bullet_scene/include', 'Scenes in Bullet, `linchpin::simulation-bullet` and `linchpin::simulation-bullet-float64`'),
    ('tools/recording/include', 'Recordings, `linchpin::recording`'),
]


# ---- pages of headers ----

def public_headers():
    """Yields folder, library and header (linchpin/laws.h) of each public header."""
    known = [folder for folder, _ in libraries]
    found = sorted(str(Path(path).relative_to(root)) for pattern in ('plugin', 'adapters/*', 'tools/*') for path in glob(str(root / pattern / 'include')))
    for folder in known + [folder for folder in found if folder not in known]:
        title = dict(libraries).get(folder, f'`{folder}`')
        for path in sorted((root / folder).rglob('*.h')):
            header = path.relative_to(root / folder).as_posix()
            if '/detail/' not in header:
                yield folder, title, header


def page_of_header(header):
    return 'api/' + header[:-2]


def head_comment(path):
    """The comment at the top of a header, as Markdown."""
    lines = []
    for line in path.read_text(encoding='utf-8').splitlines():
        if not line.startswith('//'):
            break
        lines.append(line[3:] if line.startswith('// ') else line[2:])
    return '\n'.join(lines)


def first_sentence(text):
    found = re.match(r'.*?[.:](?=\s|$)', ' '.join(text.split('\n\n')[0].split()))
    return re.sub(r':$', '.', found[0]) if found else ''


def write_api_pages(app):
    source = Path(app.srcdir)
    index = ['# API reference', '', 'This page is for programmers who use linchpin from C++. It lists the public headers. The page of a header '
             'describes every name that the header declares.', '',
             'Names in the namespace `detail` are not public. All quantities are in SI units and radians, and in the axes of the world unless a '
             'comment says otherwise. Labels such as T9 refer to equations of the [theory](../docs/explanation/theory.md).', '']
    last, pages = None, []
    for folder, title, header in public_headers():
        text = head_comment(root / folder / header)
        page = page_of_header(header)
        pages.append(page)
        if folder != last:
            index += ['', f'## {title}', '', '| header | contents |', '|---|---|']
            last = folder
        index.append(f'| [`{header}`]({posixpath.relpath(page, "api")}.md) | {first_sentence(text)} |')
        write(source / (page + '.md'), f'# {header}\n\n{fenced(text)}\n\n```cpp\n#include <{header}>\n```\n\n'
              f'```{{eval-rst}}\n.. doxygenfile:: {folder}/{header}\n   :sections: {sections}\n```\n')
    index += ['', '```{toctree}', ':hidden:', ''] + [f'{Path(page).name}.h <{posixpath.relpath(page, "api")}>' for page in pages] + ['```', '']
    write(source / 'api/index.md', '\n'.join(index))


# What is shown of a file, a namespace and a class, with comments before members.
sections = ('briefdescription detaileddescription innernamespace innerclass define enum typedef var func public-type public-attrib '
            'public-static-attrib public-func public-static-func protected-type protected-attrib protected-func protected-static-func friend user-defined')


def fenced(text):
    """Indented code of a comment, as C++."""
    lines, out, is_code = text.split('\n'), [], False
    for i, line in enumerate(lines):
        starts = line.startswith('    ') and (is_code or not out or not out[-1].strip())
        if starts and not is_code:
            block = list(itertools.takewhile(lambda line: line.startswith('    ') or not line.strip(), lines[i:]))
            is_cpp = any(re.search(r'[;{}]|//', line) for line in block) and not any('…' in line for line in block)
            out.append('```cpp' if is_cpp else '```')
        if is_code and not starts and line.strip():
            while out and not out[-1].strip():
                out.pop()
            out += ['```', '']
        if line.strip() or not is_code:
            is_code = starts
        out.append(line[4:] if is_code and line.strip() else line)
    return '\n'.join(out + (['```'] if is_code else []))


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding='utf-8') != text:
        path.write_text(text, encoding='utf-8')


# ---- navigation ----

def add_navigation(app, docname, source):
    """The groups of the front page are the groups of the navigation."""
    if docname != front:
        return
    groups, named, title = {}, set(), None
    for line in source[0].splitlines():
        heading = re.match(r'## +(.*)', line)
        if heading:
            title = heading[1].strip()
        for text, link in re.findall(r'\[([^\]]*)\]\(([^)#\s]+)(?:#[^)\s]*)?\)', line) if title else []:
            page = page_of(app.env, posixpath.normpath(posixpath.join('docs', link)))
            if page and page not in named:
                groups.setdefault(title, []).append(f'{text} </{page}>')
                named.add(page)
    for page in sorted(app.env.found_docs - named - {front}):
        if not page.startswith('api/'):
            log.warning('%s.md is not on the front page, docs/index.md', page, type='site', subtype='front')
    for title, pages in groups.items():
        source[0] += f'\n\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n' + '\n'.join(pages) + '\n```\n'


def page_of(env, path):
    """The page that a path of the repository has: itself, the API page of a header, the README of a folder."""
    if path.endswith('.md') and path[:-3] in env.found_docs:
        return path[:-3]
    if path.endswith('/include') or '/include/' in path:
        rest = path.split('/include', 1)[1].strip('/')
        page = page_of_header(rest) if rest.endswith('.h') else 'api/index'
        return page if page in env.found_docs else None
    return path + '/README' if path + '/README' in env.found_docs else None


# ---- links to files ----

def target_of(app, path):
    """The page of a file or folder of the repository. Notes that the file needs a page."""
    page = page_of(app.env, path)
    if page is None and (root / path).exists():
        if not hasattr(app.env, 'linchpin_sources'):
            app.env.linchpin_sources = set()
        app.env.linchpin_sources.add(path)
        page = 'source/' + path
    return page


def link_to_sources(app, doctree):
    """Sphinx would offer the files as downloads."""
    for node in list(doctree.findall(addnodes.download_reference)):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(app.env.docname), node['reftarget']))
        new = nodes.inline('', '', *node.children)
        new['linchpin_page'] = target_of(app, path)
        node.replace_self(new)


def link_to_folders(app, env, node, contnode):
    if node.get('refdomain') or '#' in node['reftarget']:
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(node['refdoc']), node['reftarget']))
    if path.startswith('..') or not (root / path).is_dir():
        return None
    return make_refnode(app.builder, node['refdoc'], target_of(app, path), '', contnode)


def resolve_links(app, doctree, docname):
    for node in list(doctree.findall(nodes.inline)):
        if 'linchpin_page' in node:
            uri = app.builder.get_relative_uri(docname, node['linchpin_page'])
            node.replace_self(nodes.reference('', '', *node.children, internal=True, refuri=uri))


def source_pages(app):
    """Yields a page for each file that a page links to."""
    done, todo = set(), sorted(getattr(app.env, 'linchpin_sources', ()))
    while todo:
        path = todo.pop(0)
        if path in done:
            continue
        done.add(path)
        page = 'source/' + path
        if (root / path).is_dir():
            items = []
            for entry in sorted((root / path).iterdir(), key=lambda e: (e.is_file(), e.name)):
                name = f'{path}/{entry.name}'
                if entry.is_dir() or entry.suffix in ('.png', '.svg', '.json'):
                    items.append(f'<li>{html.escape(entry.name)}{"/" if entry.is_dir() else ""}</li>')
                    continue
                uri = app.builder.get_relative_uri(page, page_of(app.env, name) or 'source/' + name)
                if not page_of(app.env, name):
                    todo.append(name)
                items.append(f'<li><a href="{uri}">{html.escape(entry.name)}</a></li>')
            body = f'<h1>{html.escape(path)}</h1>\n<ul>{"".join(items)}</ul>'
        else:
            text = (root / path).read_text(encoding='utf-8')
            language = {'.toml': 'toml', '.h': 'cpp', '.cpp': 'cpp', '.py': 'python', '.sh': 'bash', '.mjs': 'js', '.cff': 'yaml', '.json': 'json',
                        '.urdf': 'xml', '.sdf': 'xml'}.get(Path(path).suffix, 'bash' if text.startswith('#!/usr/bin/env bash') else 'none')
            body = f'<h1>{html.escape(path)}</h1>\n' + app.builder.highlighter.highlight_block(text, language, opts={}, force=True)
        yield page, {'title': path, 'body': body}, 'page.html'


# ---- HTML in pages ----

def adapt_html(app, doctree):
    """Images and links of HTML blocks, which MyST passes as they are. Comments are left out."""
    folder = posixpath.dirname(app.env.docname)
    for node in list(doctree.findall(nodes.raw)):
        if node.get('format') != 'html':
            continue
        text = re.sub(r'<!--.*?-->', '', node.astext(), flags=re.S)
        if not text.strip():
            node.parent.remove(node)
            continue

        def image(found):
            if re.match(r'[a-z]+:', found[2]):
                return found[0]
            path = posixpath.normpath(posixpath.join(folder, found[2]))
            if not (root / path).is_file():
                log.warning('image file not readable: %s', path, location=node)
                return found[0]
            app.env.images.add_file(app.env.docname, path)
            return f'{found[1]}="linchpin-image:{path}"'

        def link(found):
            if re.match(r'[a-z]+:|#', found[1]):
                return found[0]
            path, _, anchor = found[1].partition('#')
            page = target_of(app, posixpath.normpath(posixpath.join(folder, path)))
            if page is None:
                log.warning('no such file: %s', found[1], location=node)
                return found[0]
            return f'href="linchpin-page:{page}{"#" + anchor if anchor else ""}"'

        text = re.sub(r'\b(src|srcset)="([^"\s]+)"', image, text)
        text = re.sub(r'\bhref="([^"]+)"', link, text)
        node.replace_self(nodes.raw('', text, format='html'))


def resolve_html(app, doctree, docname):
    for node in list(doctree.findall(nodes.raw)):
        text = node.astext()
        if node.get('format') == 'html' and 'linchpin-' in text:
            up = posixpath.relpath('_images', posixpath.dirname(docname) or '.')
            text = re.sub(r'linchpin-image:([^"]+)', lambda m: posixpath.join(up, app.env.images[m[1]][1]), text)
            for path in re.findall(r'linchpin-image:([^"]+)', node.astext()):
                app.builder.images[path] = app.env.images[path][1]
            text = re.sub(r'linchpin-page:([^"#]+)', lambda m: app.builder.get_relative_uri(docname, m[1]), text)
            node.replace_self(nodes.raw('', text, format='html'))


# ---- tables ----

def mark_cells(app, doctree):
    """Short cells, such as numbers and names, stay in one line. Others do not become narrower than some words."""
    for cell in doctree.findall(nodes.entry):
        length = len(cell.astext())
        cell['classes'].append('short' if length <= 18 else 'long' if length > 40 else 'middle')


# ---- pages of the API reference ----

def tidy_api(app, doctree):
    """Shows a namespace as a line in place of a box around everything. Lists the names of a header beside its page."""
    if not app.env.docname.startswith('api/'):
        return
    # Texts of namespaces of several headers. They would be on each page.
    common = set(re.findall(r'^/// ([^@].*)$', (root / 'docs/site/namespaces.dox').read_text(encoding='utf-8'), re.M))
    for node in list(doctree.findall(addnodes.desc)):
        if not is_namespace(node):
            continue
        signature, content = node[0], node[-1]
        names = signature['ids'] + [i for target in signature.findall(nodes.target) for i in target['ids']]
        line = nodes.rubric('', f'namespace {signature["ids"][-1]}', ids=names, classes=['namespace'])
        content = [child for child in content.children if child.astext().strip() not in common]
        nested = [child for child in content if isinstance(child, addnodes.desc) and is_namespace(child)]
        own = [child for child in content if child not in nested]
        if all(isinstance(child, addnodes.index) for child in own):
            line['classes'].append('empty')
        node.replace_self([line] + own + nested)
    for node in list(doctree.findall(addnodes.desc)):  # "friend class Solver" says nothing to a user
        if re.match(r'\s*friend (class|struct) ', node[0].astext()) and isinstance(node.parent, nodes.container):
            section = node.parent
            section.remove(node)
            if not any(isinstance(child, addnodes.desc) for child in section):
                section.parent.remove(section)
    listed = set()
    for node in doctree.findall(addnodes.desc):
        if inside(node.parent, addnodes.desc):
            continue
        for signature in node.findall(addnodes.desc_signature):
            name = ''.join([part.astext() for part in signature.findall(addnodes.desc_name)][-1:])  # after the names of template parameters
            if signature.parent is node and name and name not in listed and not name.startswith('operator'):
                signature['_toc_name'], signature['_toc_parts'] = name, (name,)
                listed.add(name)


def is_namespace(node):
    keyword = next(iter(node[0].findall(addnodes.desc_sig_keyword)), None)
    return keyword is not None and keyword.astext() == 'namespace'


# ---- labels of equations in the API reference ----

def link_labels(app, doctree):
    if not app.env.docname.startswith('api/'):
        return
    for node in list(doctree.findall(nodes.Text)):
        if isinstance(node.parent, (nodes.literal, nodes.literal_block, nodes.title, nodes.reference, nodes.raw)) or not inside(node, nodes.paragraph):
            continue
        parts = re.split(r'\b(T\d+)\b', node.astext())
        if len(parts) == 1:
            continue
        new = []
        for part in parts:
            if not re.fullmatch(r'T\d+', part):
                new.append(nodes.Text(part))
                continue
            link = nodes.inline('', part)
            link['linchpin_label'] = part.lower()
            new.append(link)
        node.parent.replace(node, new)


def inside(node, kind):
    while node is not None:
        if isinstance(node, kind):
            return True
        node = node.parent
    return False


def resolve_labels(app, doctree, docname):
    labels = app.env.get_domain('std').anonlabels
    sections_of_theory = {name.split('#')[1].split('-')[0]: labelid for name, (page, labelid) in labels.items()
                          if page == theory and re.search(r'#t\d+-', name)}
    for node in list(doctree.findall(nodes.inline)):
        if 'linchpin_label' not in node:
            continue
        section = sections_of_theory.get(node['linchpin_label'])
        if section is None:
            log.warning('the theory has no equation %s', node.astext(), location=node)
            continue
        node.replace_self(make_refnode(app.builder, docname, theory, section, nodes.Text(node.astext())))


# ---- the theme, and warnings without a fault ----

def repair_theme(app, exception):
    """Debian 12 packages Furo without three things that its pages need: a script that is no module (a page that is opened
    as a file loads no modules), normalize.css inside the site, and the colours of a browser that prefers dark pages."""
    static = Path(app.outdir) / '_static'
    script, style = static / 'scripts/furo.js', static / 'styles/furo.css'
    if exception or not style.exists():
        return
    text = script.read_text(encoding='utf-8')
    if text.startswith('import Gumshoe from "./gumshoe-patched.js";'):
        spy = (static / 'scripts/gumshoe-patched.js').read_text(encoding='utf-8')
        script.write_text(spy + '\n' + text.split('\n', 1)[1], encoding='utf-8')
    text = style.read_text(encoding='utf-8')
    found = re.match(r'@import url\(/javascript/(normalize\.css/normalize\.css)\);', text)
    if found:
        text = Path('/usr/share/javascript', found[1]).read_text(encoding='utf-8') + text[found.end():]
    dark = re.search(r'@media not print \{\s*body\[data-theme="dark"\] \{.*?\} \}\n', text, re.S)
    if dark and 'prefers-color-scheme' not in text:
        rules = dark[0].replace('body[data-theme="dark"]', 'body:not([data-theme="light"])')
        text = text[:dark.end()] + '@media (prefers-color-scheme: dark) {\n' + rules + '}\n' + text[dark.end():]
    style.write_text(text, encoding='utf-8')


class NamespaceFilter(standard_logging.Filter):
    """Each page of a header declares its namespaces again, which is no fault."""

    def __init__(self):
        super().__init__()
        names = [re.search('<compoundname>(.*?)</compoundname>', Path(path).read_text(encoding='utf-8'))[1]
                 for path in glob(os.environ['LINCHPIN_DOCS_XML'] + '/namespace*.xml')]
        self.namespaces = {name.split('::')[-1] for name in names}

    def filter(self, record):
        found = re.search(r"Duplicate C\+\+ declaration.*cpp:type:: (\w+)'", str(record.msg), re.S)
        return not (found and found[1] in self.namespaces)


def merge(app, env, docnames, other):
    env.linchpin_sources = getattr(env, 'linchpin_sources', set()) | getattr(other, 'linchpin_sources', set())


def setup(app):
    standard_logging.getLogger('sphinx.sphinx.domains.cpp').addFilter(NamespaceFilter())
    app.connect('builder-inited', write_api_pages)
    app.connect('source-read', add_navigation)
    app.connect('doctree-read', link_to_sources, priority=100)  # before Sphinx collects downloads
    app.connect('doctree-read', adapt_html, priority=100)
    app.connect('doctree-read', mark_cells)
    app.connect('doctree-read', tidy_api, priority=100)
    app.connect('doctree-read', link_labels, priority=100)
    app.connect('missing-reference', link_to_folders)
    app.connect('doctree-resolved', resolve_links)
    app.connect('doctree-resolved', resolve_html)
    app.connect('doctree-resolved', resolve_labels)
    app.connect('html-collect-pages', source_pages)
    app.connect('env-merge-info', merge)
    app.connect('build-finished', repair_theme)
    return {'version': '1', 'parallel_read_safe': True, 'parallel_write_safe': True}
