"""What the lab starts and stops: a context manager around the two."""

from abc import ABC, abstractmethod
from typing import Self


class Service(ABC):
    """A service that is started on entry and stopped on exit."""

    @abstractmethod
    def start(self) -> Self:
        """Start, and return when it is of use."""

    @abstractmethod
    def stop(self) -> None:
        """Stop, and leave nothing behind."""

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()
