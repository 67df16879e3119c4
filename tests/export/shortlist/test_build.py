"""A bundle gets a shortlist: its files, its manifest, the gate, and how it is refused."""

from __future__ import annotations

import hashlib
import itertools
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from export.bundle import Manifest, load_manifest, verify_bundle, write_manifest
from export.graph.runner import GraphRunner, open_session
from export.quality_gates import GateError
from export.shortlist.build import (
    COLUMNS_FILE,
    TABLE_FILE,
    add_shortlist,
    batch_share,
    decode_within,
    shortlist_bundle,
)
from export.shortlist.graphs import COLUMN_INPUTS, ShortlistError
from export.shortlist.lexical_table import Candidates, LexicalTable
from model.data.corpus import CorpusError
from model.tokenizer import Tokenizer
from tests.support import factories
from tests.support.vmaps import write_vmap


def digests(directory: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in directory.iterdir()}


@pytest.fixture(scope="module")
def shortlisted(tmp_path_factory: pytest.TempPathFactory, tiny_bundle_int8: Path) -> tuple[Path, Manifest]:
    directory = tmp_path_factory.mktemp("shortlist")
    out = directory / "bundle"
    manifest = shortlist_bundle(tiny_bundle_int8, out, factories.shortlist_options(directory))
    return out, manifest


def read_table(bundle: Path) -> LexicalTable:
    with np.load(bundle / TABLE_FILE, allow_pickle=False) as stored:
        return LexicalTable(**{name: stored[name] for name in stored.files})


def test_a_copy_gets_a_shortlist_and_the_rest_stays(
    shortlisted: tuple[Path, Manifest], tiny_bundle_int8: Path
) -> None:
    bundle, manifest = shortlisted
    assert verify_bundle(bundle) == manifest
    found = manifest.shortlist
    assert found is not None
    assert found.decoders.keys() == manifest.graphs.decoders.keys()
    assert found.bleu_loss <= 0.2
    assert not found.loss_accepted_by_flag
    assert found.origin == "train.en, 300 sentence pairs"
    assert 260 < found.mean_candidates < manifest.architecture.vocab_size
    before, after = digests(tiny_bundle_int8), digests(bundle)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"manifest.json", "MODEL_CARD.md", "model.weights"}
    assert after.keys() - before.keys() == {
        TABLE_FILE,
        COLUMNS_FILE,
        *found.decoders.values(),
    }
    old, new = ((path / "model.weights").read_bytes() for path in (tiny_bundle_int8, bundle))
    assert new.startswith(old)
    # The columns lie token by token.
    assert len(new) - len(old) < 1.1 * manifest.architecture.vocab_size * manifest.architecture.d_model
    assert "## Shortlist" in (bundle / "MODEL_CARD.md").read_text(encoding="utf-8")


def test_golden_sentences_lie_within_their_candidates(shortlisted: tuple[Path, Manifest]) -> None:
    bundle, manifest = shortlisted
    candidates = Candidates(read_table(bundle))
    assert len(manifest.golden) >= 5
    for golden in manifest.golden:
        assert {*golden.target_ids, manifest.special_tokens.eos_id} <= set(candidates.of(golden.source_ids))


def test_bytes_and_special_tokens_are_always_candidates(shortlisted: tuple[Path, Manifest]) -> None:
    bundle, manifest = shortlisted
    pieces = Tokenizer.load(*manifest.tokenizer.paths(bundle)).target_pieces()
    always = {pieces[i] for i in read_table(bundle).always.tolist()}
    assert {f"<0x{byte:02X}>" for byte in range(256)} | {"</s>", "<unk>", "<s>"} <= always


def test_columns_are_those_of_the_decoder(shortlisted: tuple[Path, Manifest]) -> None:
    bundle, manifest = shortlisted
    size = manifest.architecture
    weights, scales, biases = open_session(bundle / COLUMNS_FILE).run(
        list(COLUMN_INPUTS), {"ids": np.arange(size.vocab_size)}
    )
    assert weights.shape == (size.d_model, size.vocab_size)
    assert (weights.dtype, scales.shape, biases.shape) == (np.int8, (size.vocab_size,), (size.vocab_size,))
    assert np.abs(weights).max() > 60
    assert manifest.shortlist is not None
    inputs = {entry.name for entry in open_session(bundle / manifest.shortlist.decoders["4"]).get_inputs()}
    assert set(COLUMN_INPUTS) <= inputs


def test_a_map_serves_as_well(
    tmp_path: Path, tiny_bundle_int8: Path, shortlisted: tuple[Path, Manifest]
) -> None:
    bundle, manifest = shortlisted
    tokenizer = Tokenizer.load(*manifest.tokenizer.paths(bundle))
    table = read_table(bundle)
    write_vmap(tmp_path / "map", table, tokenizer.source_pieces(), tokenizer.target_pieces())
    asked = replace(factories.shortlist_options(tmp_path), source=None, target=None, vmap=tmp_path / "map")
    again = shortlist_bundle(tiny_bundle_int8, tmp_path / "bundle", asked).shortlist
    assert again is not None
    assert manifest.shortlist is not None
    assert (again.origin, again.per_piece, again.frequent) == ("map", None, None)
    assert again.bleu == manifest.shortlist.bleu
    assert again.mean_candidates == manifest.shortlist.mean_candidates


def test_a_shortlist_that_costs_too_much_is_refused(tmp_path: Path, tiny_bundle_int8: Path) -> None:
    (tmp_path / "map").write_text("\t.\n", encoding="utf-8")
    asked = replace(factories.shortlist_options(tmp_path), vmap=tmp_path / "map")
    with pytest.raises(GateError, match=r"the shortlist loses \d+\.\d\d BLEU on dev.en, more than 0.2"):
        shortlist_bundle(tiny_bundle_int8, tmp_path / "out", asked)
    assert not list(tmp_path.glob("*out*"))
    with pytest.raises(GateError, match="golden translations lie within their candidates"):
        shortlist_bundle(tiny_bundle_int8, tmp_path / "out", replace(asked, allow_quality_loss=True))
    assert load_manifest(tiny_bundle_int8).shortlist is None


def test_a_table_that_is_too_wide_is_refused(tmp_path: Path, tiny_bundle_int8: Path) -> None:
    asked = replace(factories.shortlist_options(tmp_path), allow_wide=False)
    with pytest.raises(
        GateError,
        match=r"32 sentences of dev.en need \d\d% of the vocabulary together, more than 33%.*--allow-wide",
    ):
        shortlist_bundle(tiny_bundle_int8, tmp_path / "out", asked)
    assert not list(tmp_path.glob("*out*"))


def test_what_batches_need_is_measured_on_full_ones() -> None:
    each = [[i, 100] for i in range(64)]
    assert batch_share(each, 200) == 33 / 200
    assert batch_share([*each, [1]], 200) == 33 / 200
    assert batch_share([[1, 2], [2, 3]], 200) == 3 / 200


def test_what_cannot_be_done_is_refused(
    tmp_path: Path, tiny_bundle: Path, tiny_bundle_int8: Path, shortlisted: tuple[Path, Manifest]
) -> None:
    asked = factories.shortlist_options(tmp_path, pairs=5)
    with pytest.raises(ShortlistError, match="needs precision int8, this bundle is fp32"):
        shortlist_bundle(tiny_bundle, tmp_path / "out", asked)
    with pytest.raises(ShortlistError, match="has a shortlist already"):
        add_shortlist(shortlisted[0], asked)
    with pytest.raises(ShortlistError, match="learnt from a text and its translation, or read from a vmap"):
        shortlist_bundle(tiny_bundle_int8, tmp_path / "out", replace(asked, target=None))
    (tmp_path / "out").mkdir()
    with pytest.raises(ShortlistError, match="out exists already; --force replaces it"):
        shortlist_bundle(tiny_bundle_int8, tmp_path / "out", asked)


def test_forced_tokens_are_always_candidates(
    tmp_path: Path, tiny_bundle_int8: Path, shortlisted: tuple[Path, Manifest]
) -> None:
    bundle = Path(shutil.copytree(tiny_bundle_int8, tmp_path / "bundle"))
    manifest = load_manifest(bundle)
    forced = max(
        set(range(manifest.architecture.vocab_size)) - set(read_table(shortlisted[0]).always.tolist())
    )
    direction = manifest.directions[0].model_copy(update={"target_prefix_ids": (forced,)})
    write_manifest(bundle, manifest.model_copy(update={"directions": (direction,)}))
    asked = factories.shortlist_options(tmp_path, allow_quality_loss=True)
    found = shortlist_bundle(bundle, tmp_path / "out", asked).shortlist
    assert forced in read_table(tmp_path / "out").always
    assert found is not None and shortlisted[1].shortlist is not None
    assert found.bleu_all < shortlisted[1].shortlist.bleu_all, "what is measured begins with it"


def test_what_is_measured_begins_with_what_is_forced(tiny_bundle_int8: Path) -> None:
    manifest = load_manifest(tiny_bundle_int8)
    runner, size = GraphRunner.of_bundle(tiny_bundle_int8, manifest), manifest.architecture.vocab_size
    sources, prefix = [golden.source_ids for golden in manifest.golden], (300, 20)
    results = runner.greedy(sources, prefixes=[prefix] * len(sources))
    expected = [result.tokens for result in sorted(results, key=lambda result: result.index)]
    assert decode_within(runner, sources, None, size, prefix) == expected
    banned = {*itertools.chain(*expected)} - {*prefix}
    runner.suppressed_ids = sorted(banned)
    others = decode_within(runner, sources, None, size, prefix)
    assert not banned & {*itertools.chain(*others)}, "the server writes none of them"


def test_dev_text_that_is_missing_is_noticed_before_a_table_is_learnt(
    tmp_path: Path, tiny_bundle_int8: Path
) -> None:
    asked = replace(factories.shortlist_options(tmp_path), dev_source=tmp_path / "no.en")
    said: list[str] = []
    with pytest.raises(CorpusError, match=r"no\.en: no such file"):
        shortlist_bundle(tiny_bundle_int8, tmp_path / "out", asked, report=said.append)
    assert said == []
