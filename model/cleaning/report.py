"""What became of a corpus: how many pairs of each origin were kept, and why the others were not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from model.cleaning.checks import Reason


@dataclass
class Report:
    """Counts by origin and reason. Owned by the calling thread.

    Attributes:
        counts: pairs, by (origin, reason).
    """

    counts: Counter[tuple[str, Reason]] = field(default_factory=Counter)

    def count(self, origin: str, reason: Reason) -> None:
        """Count a pair."""
        self.counts[origin, reason] += 1

    @property
    def origins(self) -> list[str]:
        """All origins, the largest first."""
        sizes: Counter[str] = Counter()
        for (origin, _), count in self.counts.items():
            sizes[origin] += count
        return [origin for origin, _ in sizes.most_common()]

    def of(self, origins: Iterable[str], reason: Reason) -> int:
        """Count the pairs of some origins that have a reason."""
        return sum(self.counts[origin, reason] for origin in origins)

    def as_text(self) -> str:
        """Lay the counts out as a table: a row for each reason that occurs, then one for each origin."""
        origins = self.origins
        read = sum(self.counts.values())
        reasons = [(self.of(origins, reason), reason) for reason in Reason]
        lines = [
            f"{reason.name.lower():24}{count:>10,}{count / max(1, read):>8.1%}"
            for count, reason in reasons
            if count
        ]
        lines += ["", f"{'origin':32}{'read':>10}{'kept':>10}"]
        for origin in origins:
            whole = self.of([origin], Reason.KEPT) + sum(
                self.of([origin], reason) for reason in Reason if reason
            )
            lines.append(f"{origin:32}{whole:>10,}{self.of([origin], Reason.KEPT):>10,}")
        return "\n".join(lines)

    def write(self, path: Path) -> None:
        """Write the counts as JSON: origin, then reason."""
        found = {
            origin: {
                reason.name.lower(): self.counts[origin, reason]
                for reason in Reason
                if self.counts[origin, reason]
            }
            for origin in self.origins
        }
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
