"""Check that every relative link and every anchor in the project's Markdown leads somewhere."""

import re
import subprocess
import sys
from pathlib import Path

LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)


def anchors(text: str) -> set[str]:
    """Return the anchors that a page's headings make, as forges write them."""
    plain = [re.sub(r"[`*_]|\[([^\]]*)\]\([^)]*\)", r"\1", h) for h in HEADING.findall(text)]
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in plain}


def dead_links(page: Path) -> list[str]:
    """Return a sentence for each link of a page that leads nowhere."""
    text = FENCE.sub("", page.read_text())
    dead = []
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page.resolve()
        if not other.exists():
            dead.append(f"{page}: {target} does not exist")
        elif anchor and anchor not in anchors(FENCE.sub("", other.read_text())):
            dead.append(f"{page}: {target} has no such heading")
    return dead


def main() -> None:
    """Exit 1 and say where, if any link is dead."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    dead = [line for page in listed if Path(page).exists() for line in dead_links(Path(page))]
    print("\n".join(dead) or f"links: {len(listed)} pages, none dead")
    sys.exit(1 if dead else 0)


if __name__ == "__main__":
    main()
