"""A small grammar that generates English sentences whose similarity is known exactly.

A sentence says who (agent) does what (action) to what (object) where (place). Each of the four
slots has three concepts in each of six topics, and each concept has two names. Most slots of a
sentence keep to one topic, as in running text. Two sentences are the more alike the more of their
slots agree; names and the words around the slots do not count:

    score = 5 * sum_k w_k a_k,    w = (0.3, 0.3, 0.25, 0.15),

where a_k is 1 for the same concept in slot k, 0.4 for another one of its topic, 0 otherwise. It
needs no data set, fits in memory and is made in milliseconds; it is no English.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

#: Weight of agent, action, object and place in the score.
WEIGHTS = (0.3, 0.3, 0.25, 0.15)
#: Agreement of two concepts of one topic.
SAME_TOPIC = 0.4
#: Highest score, as in the STS Benchmark.
TOP = 5.0
#: Chance that a slot keeps to its sentence's topic.
LOYALTY = 0.7

# One line a topic and slot: three concepts of two names each.
_AGENTS = """
cook/chef baker/pastrymaker waiter/server
sailor/seaman fisherman/angler captain/skipper
teacher/tutor pupil/student librarian/archivist
violinist/fiddler pianist/keyboardist singer/vocalist
farmer/grower shepherd/herder milkmaid/dairymaid
doctor/physician nurse/carer surgeon/operator
"""
_ACTIONS = """
fries/sautes slices/chops tastes/samples
steers/pilots repairs/mends anchors/moors
reads/studies writes/pens explains/clarifies
plays/performs tunes/adjusts records/tapes
plants/sows harvests/reaps feeds/nourishes
examines/inspects treats/heals bandages/dresses
"""
_OBJECTS = """
onion/shallot cake/tart soup/broth
boat/vessel net/mesh sail/canvas
book/volume lesson/lecture poem/verse
violin/fiddle song/tune piano/keyboard
wheat/grain cow/heifer apple/pippin
wound/injury patient/invalid leg/limb
"""
_PLACES = """
kitchen/galley restaurant/diner bakery/cakeshop
harbour/port beach/shore lighthouse/beacon
classroom/schoolroom library/archive campus/quad
theatre/playhouse studio/workshop hall/auditorium
barn/stable meadow/pasture orchard/grove
hospital/infirmary clinic/surgery ward/sickroom
"""
# What stands around the slots and means nothing.
_OPENINGS = ("", "", "", "today", "once more", "as far as we know", "it is said that", "slowly")
_DETERMINERS = ("the", "a", "the young", "the old", "this", "one")
_PREPOSITIONS = ("in", "near", "behind")


#: Names of every concept, slot by slot; concept c belongs to topic c // 3.
LEXICON = tuple(
    tuple(tuple(concept.split("/")) for concept in text.split())
    for text in (_AGENTS, _ACTIONS, _OBJECTS, _PLACES)
)
CONCEPTS_PER_TOPIC = 3
TOPICS = len(LEXICON[0]) // CONCEPTS_PER_TOPIC


#: What a sentence says: one concept a slot, as places in :data:`LEXICON`.
Meaning = tuple[int, ...]


def agreement(a: Meaning, b: Meaning) -> float:
    """The known similarity of two meanings, in [0, 5]; see the head of this module."""
    total = 0.0
    for weight, one, other in zip(WEIGHTS, a, b, strict=True):
        if one == other:
            total += weight
        elif one // CONCEPTS_PER_TOPIC == other // CONCEPTS_PER_TOPIC:
            total += weight * SAME_TOPIC
    return TOP * total


class Speaker:
    """Draws meanings and words them.

    Args:
        seed: of every draw. Only ``random.Random.random`` is used, whose values Python promises to
            keep, so that a seed gives the same sentences everywhere.
    """

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def meaning(self) -> Meaning:
        """A new meaning: a topic, and each slot from it with chance :data:`LOYALTY`."""
        topic = self._below(TOPICS)
        return tuple(self._concept(topic) for _ in LEXICON)

    def vary(self, meaning: Meaning, change: float) -> Meaning:
        """A copy in which each slot is changed with a chance: half within its topic."""
        slots = []
        for concept in meaning:
            topic = concept // CONCEPTS_PER_TOPIC
            if self._draw.random() < change:
                kept = topic if self._draw.random() < 0.5 else self._below(TOPICS)
                concept = kept * CONCEPTS_PER_TOPIC + self._below(CONCEPTS_PER_TOPIC)
            slots.append(concept)
        return tuple(slots)

    def say(self, meaning: Meaning) -> str:
        """One of the many sentences with this meaning."""
        agent, action, thing, place = (
            names[concept][self._below(2)] for names, concept in zip(LEXICON, meaning, strict=True)
        )
        who, what, where = (self._with_determiner(word) for word in (agent, thing, place))
        opening, preposition = self._pick(_OPENINGS), self._pick(_PREPOSITIONS)
        clause, adjunct = f"{who} {action} {what}", f"{preposition} {where}"
        order = (adjunct, clause) if self._draw.random() < 0.3 else (clause, adjunct)
        text = " ".join(part for part in (opening, *order) if part)
        return f"{text[0].upper()}{text[1:]}."

    def _with_determiner(self, noun: str) -> str:
        determiner = self._pick(_DETERMINERS)
        article = "an" if determiner == "a" and noun[0] in "aeio" else determiner
        return f"{article} {noun}"

    def _concept(self, topic: int) -> int:
        if self._draw.random() >= LOYALTY:
            topic = self._below(TOPICS)
        return topic * CONCEPTS_PER_TOPIC + self._below(CONCEPTS_PER_TOPIC)

    def _below(self, n: int) -> int:
        return int(self._draw.random() * n)

    def _pick(self, words: Sequence[str]) -> str:
        return words[self._below(len(words))]


def sentences(count: int, seed: int = 0) -> Iterator[str]:
    """Generate so many sentences."""
    speaker = Speaker(seed)
    for _ in range(count):
        yield speaker.say(speaker.meaning())


def graded_pairs(count: int, seed: int) -> tuple[list[str], list[str], list[float]]:
    """First sentences, second sentences and scores of pairs that cover 0 to 5.

    The second meaning is the first with each slot changed by a chance that is itself uniform on
    [0.2, 1].
    """
    speaker, draw = Speaker(seed), random.Random(seed + 1)
    first, second, scores = [], [], []
    for _ in range(count):
        meaning = speaker.meaning()
        other = speaker.vary(meaning, 0.2 + 0.8 * draw.random())
        first.append(speaker.say(meaning))
        second.append(speaker.say(other))
        scores.append(agreement(meaning, other))
    return first, second, scores
