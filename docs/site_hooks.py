"""What mkdocs does to a page before it reads it: see `hooks` in mkdocs.yml."""

import re

# Blocks say to the tests which file they are, in which shell they run, or that they do not, behind
# their language. GitHub leaves that out of sight; Python-Markdown would not take the block for one.
FENCE = re.compile(r"^```(\w+) (?:file=\S+|shell \d+|no-run)$", re.MULTILINE)


def on_page_markdown(markdown, **_):
    return FENCE.sub(r"```\1", markdown)
