"""What a question is offered to choose from: shortlists of topics, and of a topic's subtopics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inference.hierarchy.index import HierarchyIndex, ScoredQuestion
from models.formats.topic_choice import BOUNDS, Choice, ChoiceLevel

SHORTLIST = 100


@dataclass(frozen=True)
class Offer:
    """A choice as a model sees it, and the graph's numbers behind it.

    nearest: the numbers on the shortlist, best first. numbers: by their names.
    """

    choice: Choice
    nearest: tuple[int, ...]
    numbers: Mapping[str, int]

    @property
    def is_taken_whole(self) -> bool:
        """Whether there are no more than the least to be chosen, so that nobody is asked."""
        return len(self.nearest) <= self.choice.least


@dataclass(frozen=True)
class TopicOffers:
    """Makes the offers of TH-RAG's traversal (Algorithm 2, lines 3 to 9).

    topics_bounds, subtopics_bounds: least and most to be chosen. shortlist: names of an offer, the
    nearest ones where there are more.
    """

    index: HierarchyIndex
    topics_bounds: tuple[int, int] = BOUNDS["topics"]
    subtopics_bounds: tuple[int, int] = BOUNDS["subtopics"]
    shortlist: int = SHORTLIST

    def topics(self, scored: ScoredQuestion) -> Offer:
        """The topics nearest to a question."""
        nearest = self.index.shortlist_topics(scored, self.shortlist)
        return _offer("topics", nearest, self.index.graph.topics, self.topics_bounds)

    def subtopics(self, scored: ScoredQuestion, topic: int) -> Offer:
        """The nearest of one topic's subtopics."""
        graph = self.index.graph
        nearest = self.index.shortlist_subtopics(scored, topic, self.shortlist)
        bounds, of_topic = self.subtopics_bounds, graph.topics[topic]
        return _offer("subtopics", nearest, graph.subtopics, bounds, of_topic)


def _offer(
    level: ChoiceLevel,
    nearest: Sequence[int],
    names: Sequence[str],
    bounds: tuple[int, int],
    topic: str = "",
) -> Offer:
    """Names in the order of the alphabet, so that a list does not change with the question."""
    numbers = {names[number]: number for number in nearest}
    choice = Choice(level, tuple(sorted(numbers)), *bounds, topic)
    return Offer(choice, tuple(nearest), numbers)
