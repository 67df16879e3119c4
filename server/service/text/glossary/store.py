"""The glossaries of a folder, for requests that name one."""

from pathlib import Path

from server.errors import InvalidOptionError
from server.service.text.glossary.entries import Glossary
from server.service.text.glossary.files import Key, key_of, read_folder


class GlossaryStore:
    """Glossaries in memory by name and pair. Thread-safe.

    Requests name what was loaded; no name ever becomes a path.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Read the folder.

        Args:
            folder: of glossaries; None has none.

        Raises:
            GlossaryRefusedError: a file of the folder cannot be used.
        """
        self._folder = folder
        self._read: dict[Key, Glossary] = {}
        self.reload()

    def reload(self) -> None:
        """Read the folder again.

        Raises:
            GlossaryRefusedError: a file cannot be used; what was there before still is.
        """
        if self._folder is not None:
            self._read = read_folder(self._folder)

    def find(self, name: str, source: str, target: str, *, stated: bool = True) -> Glossary | None:
        """Give the glossary that a request names.

        Args:
            name: as the client wrote it.
            source: language of the text; `de_DE` and `de-de` are the same.
            target: language of the translation.
            stated: whether the client states the source; a glossary without the pair of a text whose language
                was found out is no error.

        Raises:
            InvalidOptionError: there is none of this name, or none for the stated pair.
        """
        read = self._read
        found = read.get(key_of(name, source, target))
        if found is None:
            if not any(key[0] == name for key in read):
                raise InvalidOptionError("glossary: there is none of this name")
            if stated:
                raise InvalidOptionError(f"glossary: this one is not for {source} to {target}")
        return found
