"""Words as the offline model compares them: without endings, spelling habits and synonyms."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = [
    "MOMENT",
    "categories",
    "content",
    "number",
    "numbers",
    "sentences",
    "stem",
    "tokens",
    "word_set",
]

_TOKEN = re.compile(r"[A-Za-z0-9À-ɏ#$€£][\w'’@./:+#%-]*", re.UNICODE)


def word_set(words: str) -> frozenset[str]:
    """The words of a text as a set: how the tables here are written."""
    return frozenset(words.split())


_STOP = word_set(
    """a an the this that these those some any all each every no not and or but so if then than as of to in on at by
    for from with about into over under up out off near via per i me my mine we us our ours you your yours he him his
    she her hers it its they them their theirs myself yourself am is are was were be been being do does did done doing
    have has had having will would shall should can could may might must let's lets what which who whom whose when
    where why how there here please just also too very really still now currently again today's s t re ve ll d m don
    didn doesn isn aren wasn user know known tell told say said mention mentioned remember recall remind thing things
    one ok okay well oh hey hi hello actually yes many much"""
)

_GROUPS = {
    "like": "like likes love loves enjoy enjoys favourite favorite fave favourites favorites prefer prefers preferred "
    "preference preferences adore fond fan liked loved preferring",
    "dislike": "dislike dislikes hate hates detest loathe disliked hated",
    "name": "name names named call called nickname surname",
    "work": "work works worked working job jobs role roles occupation profession career employed employer company "
    "position focus living",
    "live": "live lives lived reside resides residing home hometown based moved relocated",
    "age": "age aged old turned",
    "birthday": "birthday birthdays birthdate born",
    "origin": "origin nationality country",
    "allergy": "allergy allergies allergic",
    "decide": "decide decided decides decision decisions agreed agree chose choose chosen choice settled",
    "child": "child children kid kids son daughter sons daughters",
    "spouse": "spouse wife husband partner",
    "phone": "phone telephone mobile cell",
    "email": "email e-mail mail mails emails",
    "schedule": "schedule scheduled appointment",
    "buy": "buy buys bought buying purchase purchased purchases",
    "car": "car cars automobile vehicle",
    "study": "study studies studied studying student major majoring",
    "speak": "speak speaks spoke speaking",
    "hobby": "hobby hobbies pastime activity activities",
    "deadline": "deadline due",
    "remind": "remind reminder reminders",
    "reserve": "reserve reservation reservations book booking booked reserved",
    "multiply": "multiply times multiplied product",
    "sum": "sum plus",
    "allow": "allow allowed",
    "photo": "photo photos picture pictures image images",
    "movie": "movie movies film films",
    "meet": "meet meets met",
}
_IRREGULAR = {
    "went": "go", "gone": "go", "drove": "drive", "left": "leave", "paid": "pay", "wrote": "write", "made": "make",
    "got": "get", "took": "take", "ate": "eat", "saw": "see", "sold": "sell", "flew": "fly", "grew": "grow",
    "began": "begin", "ran": "run", "sent": "send", "kept": "keep", "lost": "lose", "found": "find", "built": "build",
    "gave": "give", "held": "hold", "read": "read", "won": "win", "taught": "teach", "spent": "spend", "people": "person",
    "men": "man", "women": "woman", "mice": "mouse", "grey": "gray", "centre": "center", "cities": "city",
}  # fmt: skip
_SYNONYM = {word: name for name, words in _GROUPS.items() for word in words.split()}

_KINDS_OF_THINGS = {
    "food": "pizza sushi pasta ramen noodles noodle curry burger burgers steak salad soup tacos taco rice bread cheese "
    "chocolate cake apple apples banana bananas fruit vegetables fish chicken beef lasagna lasagne paella dumplings "
    "spaghetti risotto falafel hummus pancakes waffles icecream sandwich sandwiches kebab pho croissant croissants",
    "drink": "coffee tea espresso latte water beer wine juice lemonade cola matcha whisky whiskey cider milk",
    "color": "red green blue yellow orange purple violet teal turquoise pink black white gray brown magenta cyan indigo "
    "crimson scarlet maroon navy beige gold silver lilac lavender olive",
    "music": "jazz rock pop techno opera classical hiphop blues metal reggae folk",
    "sport": "football soccer tennis basketball cricket rugby hockey golf volleyball badminton baseball",
    "animal": "cat cats dog dogs horse horses parrot rabbit rabbits hamster tiger lion elephant",
    "season": "spring summer autumn fall winter",
    "day": "monday tuesday wednesday thursday friday saturday sunday",
    "month": "january february march april june july august september october november december",
    "language": "python rust java kotlin swift javascript typescript ruby haskell golang english french german spanish "
    "italian portuguese mandarin japanese",
    "pet": "cat dog parrot hamster rabbit goldfish",
}
_REGION = re.compile(r"[a-z]{2}-[a-z]+-\d+\Z")
_GERUND = re.compile(r"[a-z]{3,}ing\Z")
_NO_GERUND = word_set("spring morning evening thing something anything everything nothing king ring string")

_UNITS: str = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
_NUMBER_WORDS: dict[str, float] = {word: value for value, word in enumerate(_UNITS.split())} | {
    "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "hundred": 100,
    "thousand": 1000, "dozen": 12, "couple": 2, "half": 0.5,
}  # fmt: skip

_DAYS = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
_MONTHS = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)"
)
MOMENT = re.compile(
    rf"\b(?:\d{{1,2}}(?::\d\d)?\s?(?:am|pm|a\.m\.|p\.m\.|o'clock)|\d{{1,2}}:\d\d|\d{{4}}-\d\d-\d\d|noon|midnight|midday|"
    rf"today|tonight|tomorrow|yesterday|(?:next|this|last|every)\s+(?:week|month|year|morning|evening|{_DAYS})|{_DAYS}|"
    rf"{_MONTHS}\s+\d{{1,2}}(?:st|nd|rd|th)?|\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTHS}|"
    rf"(?:january|february|april|june|july|august|september|october|november|december)|(?:19|20)\d\d|"
    rf"in\s+(?:\w+)\s+(?:minutes?|hours?|days?|weeks?|months?)|(?:morning|afternoon|evening|night))\b",
    re.IGNORECASE,
)


_COMPOUND = re.compile(r"(?i)\b(time|web|data|wi|birth|pass)\s+(zone|site|base|fi|day|word)\b")


def tokens(text: str) -> list[str]:
    """The words as written, without the punctuation after them."""
    return [word.rstrip(".,:;!?'’/-") for word in _TOKEN.findall(text) if word.strip(".,:;!?'’/-")]


def stem(word: str) -> str:
    """The form in which words of one meaning are equal."""
    word = re.sub(r"['’]s?\Z", "", word.lower().replace("’", "'"))
    if word in _SYNONYM:
        return _SYNONYM[word]
    word = _IRREGULAR.get(word, word)
    if len(word) > 4:  # British to American, on both sides of a comparison
        word = re.sub(r"our(?=s?\Z|ed\Z|ing\Z|ite|ful)", "or", word)
        word = re.sub(r"is(e|es|ed|ing|ation)\Z", r"iz\1", word)
    word = word.replace("-", "") if not re.search(r"\d", word) else word
    return _SYNONYM.get(word) or _stripped(word)


def _stripped(word: str) -> str:
    for ending, put in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh"), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 2 and not word.endswith(("ss", "us", "is")):
            word = word[: -len(ending)] + put
            break
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and word not in _NO_GERUND:
            word = word[: -len(ending)]
            word = word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz" else word
            break
    word = word[:-1] if len(word) > 3 and word.endswith("e") else word
    return _SYNONYM.get(word, word)


_CATEGORY: dict[str, set[str]] = {}
for _name, _members in _KINDS_OF_THINGS.items():
    for _member in _members.split():
        _CATEGORY.setdefault(_member, set()).add(stem(_name))


def content(text: str) -> list[str]:
    """The stems of the words that carry meaning, in order."""
    text = _COMPOUND.sub(r"\1\2", re.sub(r"(?i)(e-?mail)\s+address", r"\1", text))
    return [stem(word) for word in tokens(text) if re.split(r"['’]", word.lower())[0] not in _STOP]


def categories(text: str) -> set[str]:
    """What kinds of things a text names: food, color, region ..."""
    found: set[str] = set()
    for word in tokens(text):
        low = word.lower()
        found |= _CATEGORY.get(low, set()) or _CATEGORY.get(_IRREGULAR.get(low, low), set())
        if _REGION.match(low):
            found.add("region")
        if _GERUND.match(low) and low not in _NO_GERUND:
            found.add("hobby")
    return found


def sentences(text: str) -> list[str]:
    """The sentences of a text; a point inside a number, an address or after an initial ends none."""
    pieces = re.split(
        r"(?<!\bDr\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bSt\.)(?<!\bMrs\.)(?<!\bProf\.)(?<=[.!?])[\"')]*\s+(?=\S)|\n+|\s+[—–]\s+",
        text,
    )
    return [piece.strip() for piece in pieces if piece.strip()]


def number(word: str) -> float | None:
    """The value of a number in digits or letters."""
    low = word.lower().strip("$€£%,")
    if re.fullmatch(r"\d+(\.\d+)?", low):
        return float(low)
    if re.fullmatch(r"\d{1,3}(,\d{3})+", low):
        return float(low.replace(",", ""))
    return _NUMBER_WORDS.get(low)


def numbers(text: str) -> Iterator[tuple[float, str]]:
    """Each number of a text with the word after it, times of day aside."""
    words = tokens(re.sub(r"(?i)\b(?:\d{1,2}(?::\d\d)?\s?(?:am|pm)|\d{1,2}:\d\d|\d{4}-\d\d-\d\d)\b", " ", text))
    for place, word in enumerate(words):
        value = number(word)
        if value is not None:
            yield value, words[place + 1] if place + 1 < len(words) else ""
