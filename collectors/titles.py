# SPDX-License-Identifier: GPL-2.0-only
"""What class a window's title is of; the title itself goes no further.

For readers that see titles themselves (X11). GNOME's extension classifies inside the Shell, by the same rules: they are
written into it (gnome/extension).
"""

import re

RULES = (
    (
        "browser",
        r"\b(firefox|librewolf|chrome|chromium|brave|vivaldi|opera|microsoft edge|epiphany|(web|tor) browser)\b",
    ),
    ("terminal", r"(^| )([^ ]+@[^ ]+: ?|~(\/[^. ]*)?$|(bash|zsh|fish|ssh|tmux|terminal)\b)"),
    (
        "document",
        (
            r"\.([ch]|cc|cpp|hpp|css|csv|docx?|epub|go|html?|ipynb|java|js|json|lua|md|od[gpst]|pdf|php|png|pptx?|py|rb|rs|rst"
            r"|sh|sql|svg|tex|toml|ts|txt|xlsx?|xml|ya?ml)\b|\b(writer|calc|impress|untitled|document)\b"
        ),
    ),
)
"""(class, regular expression in the common part of Python's and JavaScript's); the first that matches wins."""

END_LENGTH = 256
"""Characters looked at, at each end of a title: what names the application stands at one of them."""

# ASCII, as \w and \b are in JavaScript
_COMPILED = tuple((name, re.compile(pattern, re.ASCII | re.IGNORECASE)) for name, pattern in RULES)


def class_of(title: str) -> str:
    """browser, terminal, document, other; "" for an empty title."""
    if not title:
        return ""
    ends = f"{title[:END_LENGTH]} {title[-END_LENGTH:]}" if len(title) > 2 * END_LENGTH else title
    return next((name for name, pattern in _COMPILED if pattern.search(ends)), "other")
