# Sphinx configuration of the documentation site. scripts/docs calls it; the pages are the Markdown files of the
# repository where they are. linchpin_site.py beside this file adapts them to the site.
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
root = os.environ['LINCHPIN_DOCS_ROOT']  # the repository
version = re.search(r'^version: *(\S+)', open(os.path.join(root, 'CITATION.cff'), encoding='utf-8').read(), re.M)[1]

project = 'linchpin'
author = 'linchpin contributors'
release = version
copyright = author  # printed in the foot of each page
language = 'en'

root_doc = 'docs/index'
source_suffix = {'.md': 'markdown'}
include_patterns = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'docs/**', 'adapters/README.md', 'adapters/*/README.md', 'api/**']
exclude_patterns = ['docs/site/**']

extensions = ['myst_parser', 'breathe', 'sphinx_copybutton', 'linchpin_site']
copybutton_prompt_text = '$ '
copybutton_only_copy_prompt_lines = True

# The sections that GitHub makes of headings.
myst_heading_anchors = 6
myst_enable_extensions = ['html_image']
# The front page has lists of links only below its headings, and some pages begin a section at level 3.
suppress_warnings = ['myst.header']

breathe_projects = {'linchpin': os.environ['LINCHPIN_DOCS_XML']}
breathe_default_project = 'linchpin'
breathe_default_members = ('members', 'protected-members')
breathe_show_include = False
primary_domain = None
default_role = None
highlight_language = 'none'  # of code blocks without a word: formulas and output

html_theme = 'furo'
html_title = f'linchpin {version}'
html_static_path = ['static']
html_css_files = ['site.css']
html_favicon = None
html_show_sourcelink = False
html_copy_source = False
html_use_index = True
html_show_search_summary = False  # a page that is opened as a file cannot read others
html_additional_pages = {'index': 'front.html'}
templates_path = ['templates']
html_theme_options = {
    'light_css_variables': {'color-brand-primary': '#00609c', 'color-brand-content': '#00609c'},
    'dark_css_variables': {'color-brand-primary': '#6cb8ea', 'color-brand-content': '#6cb8ea'},
}
pygments_style = 'default'
pygments_dark_style = 'github-dark'
smartquotes = False  # "..." in the pages is meant as it is written
