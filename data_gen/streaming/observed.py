"""Looking at records as they pass by."""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


def observed(items: Iterable[T], *observers: Callable[[T], None]) -> Iterator[T]:
    """The items as they come, each shown to all observers first."""
    for item in items:
        for observe in observers:
            observe(item)
        yield item


class FirstFew(Generic[T]):
    """Keeps the first few items that it is shown."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.items: list[T] = []

    def add(self, item: T) -> None:
        """See an item."""
        if len(self.items) < self._limit:
            self.items.append(item)
