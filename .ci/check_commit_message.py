"""Check a commit message: a subject of at most 72 characters, a blank line, a body.

Usage: check_commit_message.py FILE (what git's commit-msg hook gets). Exit code 1 after a line on stderr.
"""

import sys
from pathlib import Path

MAX_SUBJECT = 72
_SCISSORS = "# ------------------------ >8"
_REWRITTEN_LATER = ("fixup! ", "squash! ", "amend! ", "Merge ")


def problem(message: str) -> str | None:
    """Say what is wrong with a message, or None."""
    written = message.partition(_SCISSORS)[0].splitlines()
    subject, *rest = "\n".join(line for line in written if not line.startswith("#")).strip().splitlines() or [
        ""
    ]
    if subject.startswith(_REWRITTEN_LATER):
        return None
    if not subject:
        return "the message is empty"
    if len(subject) > MAX_SUBJECT:
        return f"the subject has {len(subject)} characters; at most {MAX_SUBJECT}"
    if not rest:
        return "there is no body; say why after a blank line"
    if rest[0].strip():
        return "the second line must be blank"
    return None


if __name__ == "__main__":
    if found := problem(Path(sys.argv[1]).read_text(encoding="utf-8")):
        sys.exit(f"commit message: {found}")
