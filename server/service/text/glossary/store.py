"""Which glossaries there are: those of a folder, and those that were added while the server runs."""

import threading
from pathlib import Path

from server.errors import InvalidOptionError
from server.service.text.glossary.entries import Glossary
from server.service.text.glossary.files import Key, read_folder


class GlossaryStore:
    """Glossaries in memory by name and pair. Thread-safe.

    Requests name what was loaded; no name ever becomes a path.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Read the folder.

        Args:
            folder: of glossaries; None starts without any.

        Raises:
            GlossaryRefusedError: a file of the folder cannot be used.
        """
        self._folder = folder
        self._lock = threading.Lock()
        self._added: dict[Key, Glossary] = {}
        self._read: dict[Key, Glossary] = {}
        self.reload()

    def reload(self) -> None:
        """Read the folder again; what was added stays.

        Raises:
            GlossaryRefusedError: a file cannot be used; what was there before still is.
        """
        if self._folder is None:
            return
        found = {_key(*key): glossary for key, glossary in read_folder(self._folder).items()}
        with self._lock:
            self._read = found

    @property
    def keys(self) -> list[Key]:
        """Name, source and target of each, in order."""
        with self._lock:
            return sorted({*self._read, *self._added})

    def get(self, name: str, source: str, target: str) -> Glossary | None:
        """Give a glossary.

        Args:
            name: of a glossary.
            source: code of the language of its terms; `de_DE` and `de-de` are the same.
            target: code of the language of their translations.

        Returns:
            None if there is none.
        """
        key = _key(name, source, target)
        with self._lock:
            return self._added.get(key) or self._read.get(key)

    def find(self, name: str, source: str, target: str, *, stated: bool = True) -> Glossary | None:
        """Give the glossary that a request names.

        Args:
            name: as the client wrote it.
            source: language of the text.
            target: language of the translation.
            stated: whether the client states the source; a glossary without the pair of a text whose language
                was found out is no error.

        Raises:
            InvalidOptionError: there is none of this name, or none for the stated pair.
        """
        found = self.get(name, source, target)
        if found is None:
            pairs = [key for key in self.keys if key[0] == name]
            if not pairs:
                raise InvalidOptionError("glossary: there is none of this name")
            if stated:
                raise InvalidOptionError(f"glossary: this one is not for {source} to {target}")
        return found

    def add(self, name: str, source: str, target: str, glossary: Glossary) -> None:
        """Add a glossary, or replace one; before one of the folder it has precedence.

        Args:
            name: for requests.
            source: code of the language of its terms.
            target: code of the language of their translations.
            glossary: the entries.
        """
        with self._lock:
            self._added[_key(name, source, target)] = glossary

    def remove(self, name: str, source: str, target: str) -> bool:
        """Take away a glossary that was added; the folder's stay.

        Args:
            name: of the glossary.
            source: code of the language of its terms.
            target: code of the language of their translations.

        Returns:
            Whether there was such a one.
        """
        with self._lock:
            return self._added.pop(_key(name, source, target), None) is not None


def _key(name: str, source: str, target: str) -> Key:
    source, target = (code.replace("_", "-").casefold() for code in (source, target))
    return name, source, target
