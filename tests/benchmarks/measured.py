"""Results as the parts of the benchmark write them, with numbers that are easy to check."""

from typing import Any

MACHINE = {
    "date": "2026-01-02",
    "commit": "abc1234",
    "processor": "A Processor",
    "cores": 2,
    "instruction_sets": ["avx2"],
    "memory_gib": 8,
    "python": "3.12.0",
    "versions": {"onnxruntime": "1.0", "ctranslate2": "4.0"},
    "load_before": 0.1,
}


def row(model: str, beam: int, sentences: int, ours: list[float], theirs: list[float]) -> dict[str, Any]:
    """A row of the offline results: 1,000 tokens from everybody."""
    systems = {
        "dragoman": ours,
        "dragoman, defaults": ours,
        "CTranslate2": theirs,
        "transformers": [8.0, 10.0],
    }
    return {
        "model": model,
        "beam": beam,
        "sentences": 12 if sentences == 1 else sentences,
        "alone": sentences == 1,
        "seconds": systems,
        "tokens": dict.fromkeys(systems, 1000),
        "ctranslate2": "default ISA, 2x1",
        **({"agreement": 0.75, "text": "test.en.gz"} if model == "default" else {}),
    }


def load(
    per_s: float | None, p95_ms: float | None, words_per_s: float = 0.0, failures: int = 0
) -> dict[str, Any]:
    """A round of an HTTP loop."""
    speed = {} if per_s is None else {"per_s": per_s, "words_per_s": words_per_s}
    half = None if p95_ms is None else p95_ms / 2
    failed = {"failures": {"503": failures} if failures else {}}
    return speed | failed | {"p50_ms": half, "p95_ms": p95_ms, "p99_ms": p95_ms}


def results() -> dict[str, dict[str, Any]]:
    """All parts."""
    memory = {"load_s": 0.5, "peak_bytes": 200 << 20}
    closed = {
        "dragoman": [load(40.0, 100.0, 900.0), load(44.0, 90.0, 950.0)],
        "CTranslate2, batcher": [load(20.0, 200.0), load(22.0, 180.0)],
        "CTranslate2, no batching": [load(10.0, 400.0), load(11.0, 380.0)],
    }
    opened = {
        "dragoman": [load(None, 50.0), load(None, 60.0)],
        "CTranslate2, batcher": [load(None, 40.0), load(None, 50.0)],
        "CTranslate2, no batching": [load(None, None, failures=3), load(None, 900.0, failures=2)],
    }
    array = {
        "dragoman": [2.0, 2.2],
        "CTranslate2, batcher": [3.0, 3.3],
        "CTranslate2, no batching": [4.0, 4.4],
    }
    short = row("base", 1, 64, [1.0, 1.0], [1.2, 1.2]) | {
        "seconds": {
            "dragoman": [1.5, 1.5],
            "dragoman, shortlist": [1.0, 1.2],
            "CTranslate2": [2.0, 2.0],
            "CTranslate2, vmap": [0.9, 0.9],
        },
        "tokens": dict.fromkeys(
            ("dragoman", "dragoman, shortlist", "CTranslate2", "CTranslate2, vmap"), 1000
        ),
        "row": "base-greedy-64",
        "kind": "narrow",
        "candidates": {"sentence": 2000.0, "dragoman, shortlist": 17000.0, "CTranslate2, vmap": 9000.0},
        "ctranslate2": {"CTranslate2, vmap": "AVX2, 2x1", "CTranslate2": "AVX2, 2x1"},
    }
    cost = {
        "decoder_products": 35_000_000,
        "vocabulary_share": 0.47,
        "encoder_products": 20_000_000,
        "attention_products": 1,
        "decoder_bytes": 35_000_000,
    }
    return {
        "offline": {
            "machine": MACHINE,
            "rows": {
                "base-greedy-64": row("base", 1, 64, [1.0, 1.0], [1.3, 1.5]),
                "base-beam4-32": row("base", 4, 32, [1.0, 1.0], [0.8, 0.9]),
                "base-greedy-1": row("base", 1, 1, [0.4, 0.4], [1.0, 1.0]),
                "default-greedy-8": row("default", 1, 8, [1.0, 2.0], [1.0, 4.0]),
            },
            "systems": {
                "base": {
                    "dragoman": memory,
                    "dragoman, defaults": memory,
                    "CTranslate2 [{}, {}]": memory | {"load_s": 0.25},
                    "transformers": memory,
                }
            },
        },
        "http": {
            "machine": MACHINE,
            "models": {
                "base": {
                    "loads": {
                        "closed 16": closed,
                        "closed 64": closed,
                        "open 10.5": opened,
                        "array 500": array,
                    },
                    "memory_bytes": dict.fromkeys(closed, 100 << 20),
                    "served_words_per_s": [900.0, 950.0],
                    "in_flight_words_per_s": [1000.0, 1000.0],
                    "offline_words_per_s": [1250.0, 1250.0],
                    "batcher": {"max_batch": 32, "wait_ms": 2.0},
                }
            },
        },
        "shortlist": {"machine": MACHINE, "rows": {"base-greedy-64 narrow": short}},
        "fairness": {
            "machine": MACHINE,
            "models": {
                "base": {
                    "sentences": 200,
                    "short": 60,
                    "quiet_p50_ms": [5.0, 5.0],
                    "quiet_p95_ms": [10.0, 10.0],
                    "busy_p50_ms": [20.0, 20.0],
                    "busy_p95_ms": [35.0, 45.0],
                    "alone_s": [2.0, 2.0],
                    "beside_s": [2.5, 2.5],
                }
            },
        },
        "roofline": {
            "machine": MACHINE,
            "products_per_s": {"1": 1e10, "32": 1e11},
            "models": {
                "base": {
                    "cost": cost,
                    "bytes_per_s": 1e10,
                    "rows": {"1": {"bound": 500.0, "measured": 250.0}},
                }
            },
        },
    }
