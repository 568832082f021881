"""Sphinx's settings: the Markdown beside this file, and the API from its docstrings."""

from docutils import nodes

import pyomo_csg

project = "pyomo_csg"
version = release = pyomo_csg.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # formulas are drawn without a network, too
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3  # the links to headings that GitHub makes, too

numpydoc_show_class_members = False  # autodoc has them
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings tell types in words

html_theme = "furo"
html_title = "pyomo_csg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}


def setup(app):
    """Let code end with its last line: doctest wants a blank one before the fence."""
    app.connect("doctree-read", _without_blank_ends)


def _without_blank_ends(app, doctree):
    for block in doctree.findall(nodes.literal_block):
        block.rawsource = block.astext().rstrip()
        block[:] = [nodes.Text(block.rawsource)]
