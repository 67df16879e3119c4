from pathlib import Path

import pytest
from pydantic import ValidationError

from server.settings import Settings, usable_cores


def test_an_argument_beats_a_variable_which_beats_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().port == 8000
    monkeypatch.setenv("DRAGOMAN_PORT", "9000")
    assert Settings().port == 9000
    assert Settings(port=9001).port == 9001


@pytest.mark.parametrize(
    ("name", "value"),
    [("port", 65536), ("max_rows", -1), ("request_timeout_s", float("nan")), ("nonsense", 1)],
)
def test_settings_out_of_range_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=name):
        Settings(**{name: value})  # type: ignore[arg-type]


def test_a_delay_of_the_drain_lies_within_it() -> None:
    assert Settings(drain_delay_s=30, drain_timeout_s=30).drain_delay_s == 30
    with pytest.raises(ValidationError, match="count inside drain_timeout_s, which is 25 s") as caught:
        Settings(drain_delay_s=30)
    assert caught.value.errors()[0]["loc"] == ("drain_delay_s",)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Settings().port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "bundles"),
    [
        ("a", ("a",)),
        ("/b/en-de, /b/de-en", ("/b/en-de", "/b/de-en")),
        (Path("a,b"), ("a,b",)),
        ([Path("a"), Path("b")], ("a", "b")),
    ],
)
def test_bundles_are_separated_by_commas(given: object, bundles: tuple[str, ...]) -> None:
    assert Settings(bundle=given).bundle == tuple(map(Path, bundles))  # type: ignore[arg-type]


def test_bundles_may_come_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_BUNDLE", "bundles/en-de,bundles/de-en")
    assert Settings().bundle == (Path("bundles/en-de"), Path("bundles/de-en"))


def test_a_directory_of_bundles_stands_for_all_of_them(tmp_path: Path) -> None:
    for name in ("en-de", "de-en", ".fr-en.partial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").touch()
    (tmp_path / "notes").mkdir()
    held = (tmp_path / "de-en", tmp_path / "en-de")
    assert Settings(bundle=tmp_path).bundle == held  # type: ignore[arg-type]
    assert Settings(bundle=(tmp_path / "en-de", Path("other"))).bundle == (held[1], Path("other"))
    assert Settings(bundle=f"{tmp_path},{tmp_path / 'notes'}").bundle == (*held, tmp_path / "notes")  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["", " , ", []])
def test_no_bundle_is_refused(given: object) -> None:
    with pytest.raises(ValidationError, match="bundle"):
        Settings(bundle=given)  # type: ignore[arg-type]


def test_models_share_the_memory_of_keys_and_values() -> None:
    assert Settings(bundle="a,b,c", max_kv_cache_mib=300).kv_cache_bytes == 100 << 20  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "origins"),
    [
        (None, ()),
        ("", ()),
        ("*", ("*",)),
        ("https://a.example", ("https://a.example",)),
        (
            "https://A.example , http://localhost:3000,moz-extension://x",
            ("https://a.example", "http://localhost:3000", "moz-extension://x"),
        ),
    ],
)
def test_origins_are_separated_by_commas(given: str | None, origins: tuple[str, ...]) -> None:
    assert Settings(cors_origins=given).allowed_origins == origins


@pytest.mark.parametrize(
    "given", ["a.example", "https://a.example/", "https://*.a.example", "https://a.example,", "null", "//a"]
)
def test_what_is_no_origin_is_refused(given: str) -> None:
    with pytest.raises(ValidationError, match="an origin is"):
        Settings(cors_origins=given)


@pytest.mark.parametrize(
    ("cpu_max", "at_most"),
    [("100000 100000\n", 1), ("50000 100000", 1), ("150000 100000", 2), ("1000 100000", 1)],
)
def test_a_container_quota_bounds_the_cores(tmp_path: Path, cpu_max: str, at_most: int) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(cpu_max)
    assert 1 <= usable_cores(file) <= at_most


@pytest.mark.parametrize("cpu_max", ["max 100000", "", "nonsense", "1 2 3"])
def test_without_a_quota_the_affinity_counts(tmp_path: Path, cpu_max: str) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(cpu_max)
    assert usable_cores(file) == usable_cores(tmp_path / "missing") >= 1


def test_workers_default_to_the_usable_cores() -> None:
    assert Settings(workers=3).engine_workers == 3
    assert Settings().engine_workers == usable_cores()


def test_durations_and_sizes_may_have_units(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("REQUEST_TIMEOUT_S", "500ms"), ("CACHE_BYTES", "2MiB"), ("KEEP_ALIVE_S", "1.5min")):
        monkeypatch.setenv(f"DRAGOMAN_{name}", value)
    settings = Settings(max_kv_cache_mib="1.5GiB")  # type: ignore[arg-type]
    assert (settings.request_timeout_s, settings.cache_bytes) == (0.5, 2 << 20)
    assert (settings.keep_alive_s, settings.max_kv_cache_mib) == (90, 1536)
    with pytest.raises(ValidationError, match="unknown unit"):
        Settings(max_body_bytes="1 parsec")  # type: ignore[arg-type]
