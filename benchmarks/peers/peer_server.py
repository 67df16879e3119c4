"""The server that one would write around CTranslate2 in a day: FastAPI, SentencePiece and a dynamic batcher.

    python -m benchmarks.peers.peer_server MODEL-FOLDER TOKENIZER-FOLDER --port 9000 [--max-batch 32]

Texts of several sentences are split as dragoman splits them, since models are trained on sentences, and their
translations joined. Sentences wait in a queue; as soon as one of CTranslate2's workers is free, the one that
has waited longest and up to `--max-batch` - 1 others nearest to it in length are translated together, so that
little is padded and a long text seldom holds up short ones. An idle server waits `--wait-ms` for company
before it starts.
`--max-batch 1` is the server without batching: one text, one call.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import ctranslate2
import fastapi
import pydantic
import sentencepiece
import sentencex
import uvicorn

from benchmarks.models import longest_target

_ENDS = re.compile(r"[.!?]+(?:\s|$)")
_END = "</s>"


class TranslateFields(pydantic.BaseModel):
    """What the client sends; the rest of it is ignored."""

    q: str | list[str]
    source: str = "en"
    beam_size: int = 1


@dataclass(frozen=True)
class Waiting:
    """A text in the queue."""

    pieces: list[str]
    beam_size: int
    future: asyncio.Future[list[str]]


class Batcher:
    """Gathers texts of many requests into batches. Used from the event loop."""

    def __init__(
        self,
        translator: ctranslate2.Translator,
        workers: int,
        max_batch: int,
        wait_s: float,
        longest: int = 255,
    ) -> None:
        """Make the threads.

        Args:
            translator: with as many workers.
            workers: batches under way at once.
            max_batch: texts of a batch.
            wait_s: how long the first text of a batch waits for others if it finds a free worker.
            longest: tokens of a translation, at most.
        """
        self._translator, self._longest = translator, longest
        self._max_batch, self._wait_s = max_batch, wait_s
        self._waiting: list[Waiting] = []
        self._arrived = asyncio.Event()
        self._free = asyncio.Semaphore(workers)
        self._threads = ThreadPoolExecutor(workers)
        self._under_way: set[asyncio.Task[None]] = set()

    async def translate(self, texts: Sequence[list[str]], beam_size: int) -> list[list[str]]:
        """Queue texts and wait for all their translations, as pieces."""
        loop = asyncio.get_running_loop()
        items = [Waiting(text, beam_size, loop.create_future()) for text in texts]
        self._waiting += items
        self._arrived.set()
        # All of them, even if one fails: nobody else would ask for the others.
        found = await asyncio.gather(*(item.future for item in items), return_exceptions=True)
        for result in found:
            if isinstance(result, BaseException):
                raise result
        return [result for result in found if not isinstance(result, BaseException)]

    async def run(self) -> None:
        """Form batches until cancelled."""
        while True:
            await self._free.acquire()
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            if self._wait_s and len(self._waiting) < self._max_batch:
                await asyncio.sleep(self._wait_s)
            task = asyncio.create_task(self._translate(self._take()))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    def _take(self) -> list[Waiting]:
        if len(self._waiting) <= self._max_batch:
            batch, self._waiting = self._waiting, []
            return batch
        oldest = len(self._waiting[0].pieces)
        nearest = sorted(self._waiting, key=lambda item: abs(len(item.pieces) - oldest))
        batch = nearest[: self._max_batch]
        taken = set(map(id, batch))
        self._waiting = [item for item in self._waiting if id(item) not in taken]
        return batch

    async def _translate(self, batch: list[Waiting]) -> None:
        try:
            loop = asyncio.get_running_loop()
            for beam_size in {item.beam_size for item in batch}:
                alike = [item for item in batch if item.beam_size == beam_size]
                alike.sort(key=lambda item: len(item.pieces), reverse=True)
                results = await loop.run_in_executor(self._threads, self._call, alike, beam_size)
                for item, pieces in zip(alike, results, strict=True):
                    if not item.future.done():
                        item.future.set_result(pieces)
        except Exception as error:  # noqa: BLE001 - every caller must hear of it
            for item in batch:
                if not item.future.done():
                    item.future.set_exception(error)
        finally:
            self._free.release()

    def _call(self, batch: list[Waiting], beam_size: int) -> list[list[str]]:
        results = self._translator.translate_batch(
            [item.pieces for item in batch], beam_size=beam_size, max_decoding_length=self._longest
        )
        return [result.hypotheses[0] for result in results]


def split(text: str, language: str) -> list[str]:
    """Cut a text into sentences; at no cost if it is one."""
    if len(_ENDS.findall(text)) < 2:
        return [text]
    return [sentence for part in sentencex.segment(language, text) if (sentence := part.strip())]


def create_app(
    translator: ctranslate2.Translator, tokenizers: Path, workers: int, max_batch: int, wait_s: float
) -> fastapi.FastAPI:
    """Wire tokeniser, batcher and the two routes.

    Args:
        translator: loaded.
        tokenizers: folder of source.spm, target.spm and config.json.
        workers: of the translator.
        max_batch: texts of a batch.
        wait_s: see `Batcher`.
    """
    source = sentencepiece.SentencePieceProcessor(model_file=str(tokenizers / "source.spm"))
    target = sentencepiece.SentencePieceProcessor(model_file=str(tokenizers / "target.spm"))
    batcher = Batcher(translator, workers, max_batch, wait_s, longest_target(tokenizers))

    @contextlib.asynccontextmanager
    async def lifespan(app: fastapi.FastAPI) -> AsyncIterator[None]:
        running = asyncio.create_task(batcher.run())
        yield
        running.cancel()

    app = fastapi.FastAPI(lifespan=lifespan)

    @app.get("/readyz")
    async def ready() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/translate")
    async def translate(fields: TranslateFields) -> fastapi.responses.JSONResponse:
        texts = [fields.q] if isinstance(fields.q, str) else fields.q
        sentences = [split(text, fields.source) for text in texts]
        pieces = [[*source.encode(each, out_type=str), _END] for text in sentences for each in text]
        found = iter(await batcher.translate(pieces, fields.beam_size))
        translated = [" ".join(target.decode(next(found)) for _ in text) for text in sentences]
        answer = translated[0] if isinstance(fields.q, str) else translated
        return fastapi.responses.JSONResponse({"translatedText": answer})

    return app


def main() -> None:
    """Serve until SIGTERM."""
    cores = os.cpu_count() or 1
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="as CTranslate2's converter wrote it")
    parser.add_argument("tokenizers", type=Path, help="folder of source.spm and target.spm")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="int8 on cpu, fp16 on cuda")
    parser.add_argument("--max-batch", type=int, default=32)
    parser.add_argument("--wait-ms", type=float, default=2.0)
    arguments = parser.parse_args()
    on_gpu = arguments.device == "cuda"
    workers = 1 if on_gpu else cores
    translator = ctranslate2.Translator(
        str(arguments.model),
        device=arguments.device,
        compute_type="float16" if on_gpu else "int8",
        inter_threads=workers,
        intra_threads=1,
    )
    app = create_app(translator, arguments.tokenizers, workers, arguments.max_batch, arguments.wait_ms / 1000)
    uvicorn.run(app, host="127.0.0.1", port=arguments.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
