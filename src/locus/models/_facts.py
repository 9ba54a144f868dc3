"""What the offline model learns from a conversation, and how it answers from that.

A statement is kept as a clause with its subject and its words; a question is a set of words with a few conditions
(where: a place; when: a time; my sister's: about the sister). The clause that covers the question best answers it, the
newest of equals, said back to the person it came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from locus.core.messages import Message, Role
from locus.models._words import MOMENT, categories, content, number, sentences, stem, tokens, word_set

__all__ = ["Fact", "answer", "facts_in", "flip", "is_question", "learn", "third_person"]

_LONGEST = 20_000
_LONGEST_SENTENCE = 1_000
_LEAD = re.compile(
    r"^(?:(?:hi|hello|hey|ok|okay|well|so|oh|actually|also|and|but|no|yes|please|fyi|btw|by the way|for the record|"
    r"just so you know|in fact|good (?:morning|evening|afternoon)|thanks|thank you|correction|update|sorry|one more thing|"
    r"as you know|today)\b(?: there)?[\s,:;!.—–-]+|i (?:should|wanted to|want to|must|can) (?:mention|tell you|say|add)"
    r"(?: that)?\s+|let me tell you(?: that)?\s+|you should know(?: that)?\s+|it turns out(?: that)?\s+)",
    re.IGNORECASE,
)
_NOTED = re.compile(
    r"^(?:remember|note|keep in mind|bear in mind|don't forget|make a note|take note|save this|write down|memori[sz]e)"
    r"(?:\s+(?:this|that|the following|for me|for later|it))*\s*[:,]?\s+",
    re.IGNORECASE,
)
_IMPERATIVE = word_set("""save book call add create send show list get find tell give make set delete remove write schedule search look
    check open close start stop run buy order cancel reserve remind use please translate summarize summarise explain
    compute calculate convert update change rename move draft plan help let play print read fetch forget clear
    do be go keep answer reply respond treat never always""")
_CLAUSE = re.compile(
    r"\s*;\s*|,?\s+(?:and|but|while|though)\s+(?=(?:i|i'm|i've|my|we|our|he|she|it|they|the|his|her|their)\b)"
    r"|,\s+(?=(?:i|i'm|i've|my|we|our)\s)",
    re.IGNORECASE,
)
_SHARED = re.compile(
    r",?\s+and\s+(?:also\s+)?(?=(?:am|work|live|like|love|prefer|use|have|hate|enjoy|drive|study|speak|own|play|come|want|need|"
    r"build|maintain|run|teach|was)\s)",
    re.IGNORECASE,
)
_VERB_OF_SPEAKER = re.compile(
    r"^(?:i|we)(?:'\w+)?\s+(?:(?:can't|don't|do|really|also|just|now|usually|always|absolutely|currently)\s+)*(?:\w+\s+)?(?:an?\s+|the\s+)?",
    re.IGNORECASE,
)
_COPULA = re.compile(
    r"^(.+?)\s+(?:is|are|was|were|will be|=|equals|changed to|moved to|has moved to)\s+(.+)$", re.IGNORECASE
)
_VERB = re.compile(
    r"^(.+?)\s+(?:lives?|works?|likes?|loves?|prefers?|has|have|had|hates?|moved|turned|leads?|owns?|plays?|studies|speaks?|"
    r"comes?|drives?|uses?|starts?|ends?|costs?|opens?|closes?|runs?|needs?|wants?|goes|arrives?|leaves?|go|named|called|manages?|teaches|handles?|joined|bought|said|got|sent|wrote|made|will|can)\b",
    re.IGNORECASE,
)
_NAME = r"[A-Z][\w'’-]+(?:\s+[A-Z][\w'’-]+)*"
_NATIONS = word_set("""American British Canadian French German Italian Spanish Dutch Danish Swedish Norwegian Finnish Polish Greek
    Irish Scottish Welsh Australian Indian Chinese Japanese Korean Brazilian Mexican Turkish Russian Ukrainian Swiss
    Austrian Belgian Portuguese Czech Hungarian Catholic Muslim Jewish Hindu Buddhist Christian""")
_NO_JOB = word_set("vegetarian vegan person fan lover believer father mother parent sister brother twin beginner")
_PLACE = re.compile(
    r"\b(?:in|at|near|from|to|on|for|under|behind|inside|above|beside)\s+(?!(?:a|an|the)?\s*(?:morning|week|month)\b)(\S+(?:\s+\S+)?)",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"^(?:(?:what|who|where|when|which|how|why|whose)(?:'s|’s|\s+(?!i\b|we\b))|(?:do|does|did|is|are|am|was|were|have|has|can|"
    r"could|will|would|should)\s+(?:i|we|you|he|she|it|they|my|our|your|the|there|any)\b)",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"^(?:(?:can|could|would|will) you\s+)?(?:please\s+)?(?:remind me|tell me|do you (?:still\s+)?(?:know|remember|recall)|"
    r"can you (?:recall|remember)|i forgot|i forget|i can't remember|i don't remember|any idea|let me know|you know)"
    r"(?:\s+again)?[\s,:]+(?:(?:of|about)\s+)?(?=what|which|who|where|when|how|my|the|whose|if|whether|our)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One clause somebody stated."""

    text: str
    subject: frozenset[str]
    """The words it is about; empty when it is about the speaker or cannot be told."""
    words: frozenset[str]
    owners: frozenset[str]
    """Whose it is, when it is not the speaker's own: the dog of "my dog's name"."""
    named: frozenset[str]
    """What it gives the name of, when that is not the speaker."""
    about_speaker: bool
    is_open: bool
    """Whether its object is of no known kind, so that it may be of the kind that is asked for."""


def learn(messages: Sequence[Message]) -> list[Fact]:
    """Every fact of a conversation, oldest first; what the system prompt knows counts as older than what was said."""
    known = [fact for message in messages if message.role is Role.SYSTEM for fact in _system_facts(message.text)]
    said = [fact for message in messages if message.role is Role.USER for fact in facts_in(message.text)]
    return known + said


@lru_cache(maxsize=4096)  # a thread's older messages are read again with every request
def facts_in(text: str) -> tuple[Fact, ...]:
    """The facts that a user's text states; what is too long to be a sentence of a person is none."""
    spoken = [sentence for sentence in sentences(text[:_LONGEST]) if len(sentence) <= _LONGEST_SENTENCE]
    return tuple(fact for sentence in spoken if not is_question(sentence) for fact in _sentence_facts(sentence))


def is_question(sentence: str) -> bool:
    """Whether a sentence asks to be told something."""
    bare = _without_lead(sentence)
    return bare.rstrip("\"' )").endswith("?") or bool(_ASKING.match(bare)) or bool(_QUESTION.match(bare))


def answer(question: str, facts: Sequence[Fact]) -> str | None:
    """The answer the facts give, in the second person; None when none bears on it."""
    if re.search(r"(?i)\b(?:know about me|remember about me|told you (?:so far|about me)|know of me)\b", question):
        mine = [flip(fact.text) for fact in facts if fact.about_speaker or fact.text.lower().startswith("my ")]
        return _sentence("; ".join(dict.fromkeys(mine))) if mine else None
    parts = re.split(r",?\s+and\s+(?=(?:what|which|where|who|when|how)\b)", _ASKING.sub("", _without_lead(question)))
    found = [_answer_one(part, facts) for part in parts]
    return " ".join(dict.fromkeys(text for text in found if text)) or None


def _without_lead(sentence: str) -> str:
    text = sentence.strip()
    while (shorter := _LEAD.sub("", text, count=1)) != text:
        text = shorter
    return text


def _system_facts(text: str) -> Iterator[Fact]:
    for line in text.splitlines():
        if len(line) > _LONGEST_SENTENCE * 4:
            continue
        bare = re.sub(r"^\s*(?:[-*•>]|\d+[.)])\s*(?:[\[(][^\])]*[\])]\s*:?\s*)?", "", line).strip()
        bare = re.sub(r"^[\w./ -]{1,60}:\s+(?=(?:The )?[Uu]ser\b)", "", bare)
        quoted = re.findall(r'"(?:content|text|memory|fact|value)"\s*:\s*"([^"]+)"', bare)
        for sentence in quoted or sentences(bare):
            first = (tokens(sentence) or [""])[0].lower()
            if first in _IMPERATIVE or first in (
                "you",
                "your",
                "when",
                "whenever",
                "if",
                "these",
                "this",
                "below",
                "they",
            ):
                continue
            if not is_question(sentence):
                yield from _sentence_facts(_first_person(sentence))


def _first_person(sentence: str) -> str:
    """What is said of "the user" as the user would say it."""
    text = re.sub(
        r"(?i)^(?:the\s+)?user\s+(?:has\s+)?(?:stated|expressed|has|have)\s+(?:a\s+)?preference\s*(?::|for)\s*",
        "I prefer ",
        sentence,
    )
    text = re.sub(r"(?i)\b(?:the\s+)?user['’]s\b", "my", text)
    text = re.sub(r"(?i)^my\s+(.{1,40}?)\s*:\s+", r"my \1 is ", text)

    def spoken(match: re.Match[str]) -> str:
        verb = match.group(1).lower()
        return "I " + {"is": "am", "has": "have", "was": "was", "does": "do"}.get(
            verb, re.sub(r"(?<=[^s])s\Z", "", verb)
        )

    text = re.sub(r"(?i)\b(?:the\s+)?user\s+([a-z]+)", spoken, text)
    return re.sub(r"\band (works|lives|likes|loves|prefers|uses|enjoys|drives|speaks|plays|owns|runs)\b", _plural, text)


def _plural(match: re.Match[str]) -> str:
    return match.group(0).removesuffix("s")


def _sentence_facts(sentence: str) -> Iterator[Fact]:
    bare = _without_lead(sentence)
    noted = bool(_NOTED.match(bare))
    bare = _without_lead(_NOTED.sub("", bare, count=1)).rstrip(".!; ")
    first = (tokens(bare) or [""])[0].lower()
    if not bare or first == "for" or (not noted and (not _states(bare, first) or is_question(bare))):
        return
    for clause in _clauses(bare):
        fact = _fact(clause)
        if fact.words and (noted or len(tokens(clause)) > 1):
            yield fact


def _states(text: str, first: str) -> bool:
    """Whether a sentence says how things are; an order begins with its verb."""
    if first in _SUBJECTS or text.lower().startswith("call me"):
        return True
    return first not in _IMPERATIVE and bool(_COPULA.match(text) or _VERB.match(text) or re.search(r"['’]s\s", text))


def _clauses(text: str) -> Iterator[str]:
    for piece in _CLAUSE.split(text):
        shared = _SHARED.split(piece) if re.match(r"(?i)(?:i|we)\b", piece) else [piece]
        speaker = "we" if piece.lower().startswith("we") else "I"
        for place, part in enumerate(shared):
            clause = part if place == 0 else f"{speaker} {part}"
            name, comma, rest = clause.partition(", ")
            if comma and re.fullmatch(rf"(?i:i'm|i am|my name is) {_NAME}", name) and re.match(r"an?\s|from\s", rest):
                yield name
                clause = f"I'm {rest}"
            yield clause.strip(" ,")


def _fact(clause: str) -> Fact:
    text = re.sub(r"(?i)\bliving in\b", "live in", clause.replace("’", "'"))
    about_speaker = bool(re.match(r"(?i)(?:i|we|i'm|we're|i've|we've|i'll|call me)\b", text))
    subject, value = _subject(text, about_speaker=about_speaker)
    owners = {
        stem(owner)
        for owner in re.findall(r"(\w+)'s\s+(?=\w)", text)
        if owner.lower() not in ("it", "that", "let", "there")
    }
    words = set(content(text)) | categories(value)
    tags, named = _tags(text)
    if re.search(r"(?i)\b(?:don't|do not|doesn't|never|not|no longer|can't stand)\b", text) and "like" in words:
        words = (words - {"like"}) | {"dislike"}
    if "stand" in words and "dislike" not in words and re.search(r"(?i)can't stand", text):
        words.add("dislike")
    return Fact(
        text=clause,
        subject=frozenset(subject),
        words=frozenset(words | tags),
        owners=frozenset(owners),
        named=frozenset(named),
        about_speaker=about_speaker,
        is_open=subject <= {"like"} and not categories(value) and _is_single(value),
    )


def _subject(text: str, *, about_speaker: bool) -> tuple[set[str], str]:
    """The words a clause is about, and what it says of them."""
    if about_speaker:
        return set(), _VERB_OF_SPEAKER.sub("", text)
    match = _COPULA.match(text) or re.match(r"(?i)^((?:my|our|the)\s+[\w ]+?)'s\s+(.+)$", text)
    if match:
        return set(content(match.group(1))), match.group(2)
    if verb := _VERB.match(text):
        return set(content(verb.group(1))), text[verb.end() :]
    return set(), text


def _is_single(value: str) -> bool:
    """Whether a value is one thing by its looks: one word, a name, a code."""
    main = re.split(r"(?i)\s+(?:for|in|on|at|with|when|because|from|to)\s", value)[0]
    words = content(main)
    return len(words) == 1 or (
        bool(words) and all(word[0].isupper() or word[0].isdigit() for word in tokens(main) if word != "and")
    )


def _tags(text: str) -> tuple[set[str], set[str]]:
    """Words a clause means without saying them, and whose name it gives when it is not the speaker's."""
    tags: set[str] = set()
    named: set[str] = set()
    if re.search(r"(?i)(?<!mail )\baddress\b", text):
        tags.add("live")
    if (own := _own_name(text)) and own.split()[0] not in _NATIONS:
        tags.add("name")
    if (
        re.match(r"(?i)(?:i'm|i am)\s+an?\s+", text)
        and stem(tokens(re.split(r"\s(?:at|in|for|from|of|with)\s", text)[0])[-1]) not in _NO_JOB
    ):
        tags.add("work")
    if re.match(r"(?i)(?:i'm|i am|i come|i grew up)\s+(?:originally\s+)?(?:from|in)\b", text):
        tags.add("live" if re.match(r"(?i)(?:i'm|i am)\s+in\b", text) else "origin")
    if re.match(r"(?i)(?:i'm|i am)\b", text) and re.search(r"\bfrom\s+[A-Z]", text):
        tags.add("origin")
    if (
        last := re.search(r"(?i)(?:\b(?:am|is|turned|turn)|i'm)\s+(?:now\s+)?([\w-]+)(?:\s+years\s+old)?$", text)
    ) and number(last.group(1)):
        tags.add("age")
    for pattern in (
        rf"(?i:\b(?:my|our)\s+)([a-z]+),?\s+(?:is\s+)?(?:called\s+|named\s+)?{_NAME}",
        rf"\b([a-z]+)\s+(?:is\s+|was\s+)?(?:named|called)\s+{_NAME}",
    ):
        for kind in re.findall(pattern, text):
            if stem(kind) != "name":
                tags.add("name")
                named.add(stem(kind))
    return tags, named


def _own_name(text: str) -> str | None:
    match = re.match(
        rf"(?i:i'm|i am|this is|call me|it's|my name is|my name's|people call me)\s+({_NAME})(?=$|[,.]|\s+(?:here|from|by|again)\b)",
        text,
    )
    return match.group(1) if match else None


@dataclass(frozen=True, slots=True)
class _Question:
    words: frozenset[str]
    kind: frozenset[str]
    """The kind of thing asked for: the color of "which color do I like"."""
    owners: frozenset[str]
    asks: str
    preposition: str | None
    text: str


def _answer_one(text: str, facts: Sequence[Fact]) -> str | None:
    question = _question(text)
    if not question.words:
        return None
    scored = [(score, place) for place, fact in enumerate(facts) if (score := _score(question, fact)) > 0]
    if not scored:
        return None
    best = max(score for score, _ in scored)
    fact = facts[max(place for score, place in scored if score >= best - 0.1)]
    own = _own_name(fact.text)
    if own and "name" in question.words:
        return f"Your name is {own}."
    return _sentence(flip(fact.text))


def _question(text: str) -> _Question:
    text = text.strip().rstrip("?!. ").replace("’", "'")
    low = text.lower()
    words = set(content(text))
    asks = next(
        (
            word
            for word in ("where", "when", "how many", "how much", "how old", "who")
            if re.search(rf"\b{word}\b", low)
        ),
        "",
    )
    if re.match(r"who\s+am\s+i$|what\s+am\s+i\s+called", low):
        words, asks = {"name"}, ""
    if re.match(r"what\s+(?:do|did)\s+i\s+do\b(?!\s+(?:with|about|on|when))", low):
        words |= {"work"}
    if asks == "where" and re.search(r"\bfrom$", low):
        words |= {"origin"}
    if asks == "when" or re.match(r"what\s+(?:time|day|date)\b|which\s+day\b", low):
        asks, words = "when", words - {stem(word) for word in ("time", "day", "date")}
    kind = re.match(r"(?:what|which)\s+(.+?)\s+(?:do|did|does|is|are|am|was|should|have|has|i|we)\b", low)
    favourite = re.search(r"(?:favou?rite|preferred)\s+(.+)$", low)
    owners = {stem(owner) for owner in re.findall(r"(\w+)'s\s+\w", text) if stem(owner) not in _WH}
    if subject := re.search(r"\b(?:does|did|do|has)\s+(?:my|our|the)?\s*(\w+)", text):
        owners |= set(content(subject.group(1)))
    tail = re.search(r"\b(on|as|at|for|with|in)$", low)
    return _Question(
        words=frozenset(words),
        kind=frozenset(content((kind or favourite).group(1)) if kind or favourite else ()),  # type: ignore[union-attr]
        owners=frozenset(owners),
        asks=asks,
        preposition=tail.group(1) if tail else None,
        text=low,
    )


_SUBJECTS = word_set(
    "i i'm i've i'd we we're we've my our the this it it's he she they there a an his her their everyone"
)
_PLACES = frozenset(stem(word) for word in ("city", "town", "country", "place", "state", "village"))
_WH = word_set("what who where when which how it that there whose")


def _score(question: _Question, fact: Fact) -> float:
    """How well a fact covers a question; 0 when it does not answer it."""
    about_other = re.search(r"\b(?:he|she|they|him|his|her|their)\b", question.text) and not re.search(
        r"\b(?:i|my|me|we|our)\b", question.text
    )
    if not question.owners <= fact.words or not fact.owners <= question.words or (about_other and fact.about_speaker):
        return 0.0
    if "name" in question.words and fact.named and not fact.named & question.words:
        return 0.0
    if fact.subject and not fact.subject & question.words and question.asks != "who":
        return 0.0
    if not _fits(question.asks, fact):
        return 0.0
    missing = question.words - fact.words
    if fact.words & {"live", "origin"}:
        missing -= _PLACES
    hits = len(question.words) - len(missing)
    if fact.is_open and len(missing & question.kind) == 1:
        hits += 0.5  # type: ignore[assignment]
    ratio = hits / len(question.words)
    if ratio <= 0.5:
        return 0.0
    low = fact.text.lower()
    if question.preposition and re.search(rf"\b{question.preposition}\b", low):
        ratio += 0.15
    verb = re.search(r"\b[a-z]+\s+(on|at|as|for|in|with)\b", low)
    if question.preposition and verb and verb.group(1) != question.preposition:
        ratio -= 0.15  # "what do I work on" is not asked of "I work at ..."
    if (
        "work" in question.words
        and question.asks == ""
        and not question.preposition
        and re.search(r"\bas an?\b|^(?:i'm|i am) an?\b", low)
    ):
        ratio += 0.15
    return ratio - 0.02 * len(fact.subject - question.words)


def _fits(asks: str, fact: Fact) -> bool:
    if asks == "when":
        return bool(MOMENT.search(fact.text))
    if asks == "where":
        return any(not MOMENT.match(place) for place in _PLACE.findall(fact.text)) or "live" in fact.subject
    if asks in ("how many", "how much", "how old"):
        return any(
            number(word) is not None or word.lower() in ("a", "an", "no") or word[0].isdigit()
            for word in tokens(fact.text)
        )
    return True


_SAID_BACK = {
    "i": "you", "i'm": "you're", "i've": "you've", "i'll": "you'll", "i'd": "you'd", "my": "your", "me": "you",
    "mine": "yours", "myself": "yourself", "we": "you", "we're": "you're", "we've": "you've", "our": "your",
    "ours": "yours", "us": "you", "am": "are", "your": "my",
}  # fmt: skip


def flip(text: str) -> str:
    """A statement said back to the one who made it."""
    text = re.sub(r"(?i)\b(i|we)\s+was\b", "you were", text.replace("’", "'"))

    def back(match: re.Match[str]) -> str:
        word = match.group(0)
        return word if word == "US" else _SAID_BACK.get(word.lower(), word)

    return re.sub(r"(?<![\w-])[A-Za-z]+(?:'[a-z]+)?(?![\w-])", back, text)


def third_person(facts: Iterable[Fact]) -> str:
    """Facts as a short summary about the user."""
    return "; ".join(dict.fromkeys(_of_user(fact.text) for fact in facts))


def _of_user(text: str) -> str:
    text = re.sub(r"(?i)^(?:i'm|i am|we are|we're)\b", "The user is", text.replace("’", "'"))

    def verb(match: re.Match[str]) -> str:
        word = match.group(1)
        special = {
            "have": "has",
            "do": "does",
            "don't": "doesn't",
            "was": "was",
            "had": "had",
            "can": "can",
            "will": "will",
        }
        regular = word if word.endswith("ed") else word + ("es" if word.endswith(("s", "sh", "ch", "x", "o")) else "s")
        return f"The user {special.get(word.lower(), regular)}"

    text = re.sub(r"^(?:I|i|[Ww]e)\s+([a-z']+)", verb, text)
    text = re.sub(r"(?i)^(?:my|our)\b", "The user's", text)
    text = re.sub(r"(?<![\w-])(?:my|our|My|Our)(?![\w-])", "their", text)
    return re.sub(r"(?<![\w-])(?:I|me)(?![\w-])", "the user", text)


def _sentence(text: str) -> str:
    text = text.strip()
    return (text[:1].upper() + text[1:]).rstrip(".") + "." if text else text
