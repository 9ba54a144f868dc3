"""The offline model recalls what it was told, in any wording of a common kind, and says so when it was not told."""

from __future__ import annotations

import pytest

from locus.core import Message
from locus.models import MockModel


async def ask(*said: str, system: str | None = None) -> str:
    """The answer to the last of these, the others being turns before it."""
    model = MockModel()
    messages = [Message.system(system)] if system else []
    answer = ""
    for text in said:
        messages.append(Message.user(text))
        response = await model.complete(messages)
        messages.append(response.message)
        answer = response.message.text
    return answer


TOLD: list[tuple[list[str], str, str]] = [
    (["My favourite colour is teal"], "what color do I like best?", "teal"),
    (
        ["My favourite colour is teal", "Actually my favorite color is now crimson"],
        "what is my favourite colour",
        "crimson",
    ),
    (["I live in Lyon and work as a baker."], "Where do I live?", "Lyon"),
    (["I live in Lyon and work as a baker."], "What's my job?", "baker"),
    (["I work as a nurse. I work at Mercy Hospital. I work on night rosters."], "Where do I work?", "Mercy"),
    (["I work as a nurse. I work at Mercy Hospital. I work on night rosters."], "what do I work on?", "night rosters"),
    (["I work as a nurse. I work at Mercy Hospital. I work on night rosters."], "what do I do for a living?", "nurse"),
    (["Priya's birthday is May 3"], "When is Priya's birthday?", "May 3"),
    (["the meeting is at noon on Friday"], "when is the meeting?", "noon"),
    (["the meeting is at noon on Friday", "The meeting is in room 5."], "where is the meeting?", "room 5"),
    (["the meeting is at noon on Friday", "The meeting is in room 5."], "what time is the meeting?", "noon"),
    (["the meeting is at noon on Friday", "the meeting moved to Thursday"], "when is the meeting?", "Thursday"),
    (["we decided to ship on Tuesday"], "What did we decide?", "ship"),
    (["we decided to use Postgres for the ledger"], "Which database did we choose for the ledger?", "Postgres"),
    (["My dog's name is Rex."], "What is my dog called?", "Rex"),
    (["I have a cat named Misha and a son called Leo"], "What is my cat's name?", "Misha"),
    (["My daughter Emma turned five."], "How old is my daughter?", "five"),
    (["My daughter Emma turned five."], "What's my daughter's name?", "Emma"),
    (["My brother Tom lives in Oslo."], "Where does Tom live?", "Oslo"),
    (["My brother Tom lives in Oslo.", "I live in Rome"], "Where does my brother live?", "Oslo"),
    (["I'm 34 years old."], "How old am I?", "34"),
    (["I'm allergic to peanuts"], "What am I allergic to?", "peanuts"),
    (["I'm allergic to peanuts"], "Do I have any allergies?", "peanuts"),
    (["I don't like cilantro."], "What do I dislike?", "cilantro"),
    (["I like ceviche."], "What's my favorite food?", "ceviche"),
    (["I drive a Volvo."], "Which car do I drive?", "Volvo"),
    (["The wifi password is hunter2"], "What's the Wi-Fi password again?", "hunter2"),
    (["My wife is Dana."], "What's my wife's name?", "Dana"),
    (["I bought a red bicycle yesterday."], "What did I buy?", "bicycle"),
    (["Call me Ishmael."], "What is my name?", "Ishmael"),
    (["I'm from Ghana."], "Where am I from?", "Ghana"),
    (["Remember the gate code 4411"], "what's the gate code?", "4411"),
    (["Dana leads the billing project."], "Who leads the billing project?", "Dana"),
    (["I have two kids."], "How many children do I have?", "two"),
    (["I enjoy hiking."], "What's my hobby?", "hiking"),
    (["My flight leaves at 6:40 on Sunday from Gatwick"], "When does my flight leave?", "6:40"),
    (["My flight leaves at 6:40 on Sunday from Gatwick"], "Where does my flight leave from?", "Gatwick"),
    (["I was born in 1990."], "When was I born?", "1990"),
    (["Our deadline is June 5th."], "When is the deadline?", "June 5th"),
    (["I use vim."], "What editor do I use?", "vim"),
    (["My email is zed@example.org."], "What's my e-mail address?", "zed@"),
    (["I speak Catalan"], "Which language do I speak?", "Catalan"),
    (["Hey, I'm Marguerite, a botanist from Quito."], "What do I do?", "botanist"),
    (["Hey, I'm Marguerite, a botanist from Quito."], "Do you remember my name?", "Marguerite"),
    (["Hey, I'm Marguerite, a botanist from Quito."], "Where am I from?", "Quito"),
    (["My sister's husband is called Omar."], "What is my sister's husband called?", "Omar"),
    (["I moved to Lisbon last year."], "Which city do I live in?", "Lisbon"),
    (["My phone number is 555-0199."], "what's my phone number?", "555-0199"),
    (["The staging server is at 10.1.2.3."], "Where is the staging server?", "10.1.2.3"),
    (["The launch is scheduled for October 12."], "When is the launch?", "October 12"),
    (["My favourite band is Radiohead."], "Who is my favorite band?", "Radiohead"),
    (["I have a meeting with Dr. Patel at 3pm on Monday."], "When is my meeting with Dr. Patel?", "3pm"),
    (["I study marine biology at Bergen."], "What do I study?", "marine biology"),
    (["I'm vegetarian."], "Am I vegetarian?", "vegetarian"),
    (["My car is a blue Skoda."], "What colour is my car?", "blue"),
    (["Our budget is 40,000 euros."], "How much is our budget?", "40,000"),
    (["The API key rotates every Tuesday."], "When does the API key rotate?", "Tuesday"),
    (["My mother's maiden name is Kowalski."], "What's my mother's maiden name?", "Kowalski"),
    (["I play the cello."], "Which instrument do I play?", "cello"),
    (["Please remember that the alarm code is 9931."], "What's the alarm code?", "9931"),
    (["We agreed to meet at the library."], "Where did we agree to meet?", "library"),
    (["I'm learning Portuguese."], "Which language am I learning?", "Portuguese"),
    (["I prefer tea to coffee."], "What do I prefer to drink?", "tea"),
    (["I take my coffee black."], "How do I take my coffee?", "black"),
    (["Jonas is my manager."], "Who is my manager?", "Jonas"),
    (["I've got three brothers."], "How many brothers do I have?", "three"),
    (["I wear size 43 shoes."], "What's my shoe size?", "43"),
    (["The capital of Atlantis is Poseidonis."], "What is the capital of Atlantis?", "Poseidonis"),
    (["Anna's flight lands at 18:20."], "When does Anna's flight land?", "18:20"),
    (["I used to live in Ghent, but now I live in Delft."], "Where do I live?", "Delft"),
    (["The password for the vault is swordfish."], "What is the vault password?", "swordfish"),
    (["I'm married to Kim."], "Who am I married to?", "Kim"),
    (["My dentist appointment is next Thursday."], "When is my dentist appointment?", "next Thursday"),
    (["I can't stand mushrooms."], "What food do I hate?", "mushrooms"),
    (["My goal is to run a marathon."], "What's my goal?", "marathon"),
    (["I like pizza.", "I like hiking."], "What's my favourite food?", "pizza"),
    (["I'm Alice.", "Sorry, my name is Alicia."], "What's my name?", "Alicia"),
    (["We use Kafka for events."], "What do we use for events?", "Kafka"),
    (["The cat is called Pixel."], "What's the cat's name?", "Pixel"),
    (["My son is nine."], "How old is my son?", "nine"),
    (["I was born on 4 July 1985."], "When's my birthday?", "4 July"),
    (["I'm based in Nairobi."], "Where do I live?", "Nairobi"),
    (["I'm an accountant."], "What is my profession?", "accountant"),
    (["I build compilers for a living."], "What do I do for a living?", "compilers"),
    (["My timezone is CET."], "Which time zone am I in?", "CET"),
    (["Invoices go to billing@acme.test."], "Where do invoices go?", "billing@acme.test"),
    (["My favourite programming language is Rust"], "What programming language do I like?", "Rust"),
    (["My nickname is Fitz."], "What's my nickname?", "Fitz"),
    (["I run a small brewery in Cork."], "What do I run?", "brewery"),
    (["I run a small brewery in Cork."], "Where is my brewery?", "Cork"),
    (["My grandmother lives in Porto and my uncle lives in Faro."], "Where does my uncle live?", "Faro"),
    (["The rehearsal starts at 7pm."], "What time does the rehearsal start?", "7pm"),
    (["I'm training for a triathlon."], "What am I training for?", "triathlon"),
    (["I parked the car on level 3."], "Where did I park?", "level 3"),
    (["My blood type is O negative."], "What's my blood type?", "O negative"),
    (["I left my keys under the mat."], "Where did I leave my keys?", "mat"),
    (["We chose Helvetica for the logo."], "Which font did we choose for the logo?", "Helvetica"),
    (["Our team has twelve engineers."], "How many engineers does our team have?", "twelve"),
    (["My favourite number is 17."], "What's my favorite number?", "17"),
    (["The conference is in Vienna in June."], "Where is the conference?", "Vienna"),
    (["The conference is in Vienna in June."], "When is the conference?", "June"),
    (["Lena works at the harbour."], "Where does Lena work?", "harbour"),
    (["I quit smoking in 2019."], "When did I quit smoking?", "2019"),
    (["My username is moss_77."], "what is my username", "moss_77"),
    (["I need the report by Wednesday."], "When do I need the report?", "Wednesday"),
    (["I'm a huge fan of Miyazaki films."], "Whose films do I like?", "Miyazaki"),
    (["The answer is forty-two."], "What's the answer?", "forty-two"),
    (["I speak Welsh and Breton."], "What languages do I speak?", "Welsh"),
    (["My project is called Lantern."], "What's my project called?", "Lantern"),
    (["My project is called Lantern."], "What's the name of my project?", "Lantern"),
    (["The budget was approved."], "Was the budget approved?", "approved"),
    (["I am the treasurer of the chess club."], "What is my role in the chess club?", "treasurer"),
    (["My partner's name is Sol."], "What's my partner's name?", "Sol"),
]
UNTOLD: list[tuple[list[str], str]] = [
    (["Priya's birthday is May 3"], "When is my birthday?"),
    (["the meeting is at noon on Friday"], "where is the meeting?"),
    (["My dog's name is Rex."], "What's my name?"),
    (["My brother Tom lives in Oslo."], "Where do I live?"),
    (["I live in Rome"], "Where does Tom live?"),
    (["I hate olives."], "What's my favourite food?"),
    (["I like jazz."], "What's my favorite food?"),
    (["My wife's favourite flower is the tulip."], "What's my favourite flower?"),
    (["My favorite city is Paris"], "what's my name?"),
    (["I prefer window seats."], "Which region do I prefer?"),
    (["Hello there!"], "What's my name?"),
    (["I enjoy hiking."], "What's my favorite food?"),
    (["Our deadline is June 5th."], "When is the report due?"),
    (["My favourite band is Radiohead."], "What's my favorite movie?"),
    (["I love the smell of rain."], "What's my name?"),
    (["My car is a blue Skoda."], "What colour is my house?"),
    (["My mother's maiden name is Kowalski."], "What's my maiden name?"),
    (["Please remember that the alarm code is 9931."], "What's the door code?"),
    (["My manager is Jonas."], "Who's my boss?"),
    ([], "What is the capital of France?"),
    (["Anna's flight lands at 18:20."], "When does my flight land?"),
    (["My name was Smith but now it's Jones."], "What's the project deadline?"),
    (["My son is nine."], "How old am I?"),
    (["My favourite number is 17."], "What's my favorite book?"),
    (["My cat is sick."], "What's my dog's name?"),
    (["Lena works at the harbour."], "Where do I work?"),
    (["I own a tandem."], "What's my name?"),
]


@pytest.mark.parametrize(("told", "question", "expected"), TOLD, ids=[row[1] for row in TOLD])
async def test_what_was_told_is_recalled(told: list[str], question: str, expected: str) -> None:
    assert expected in await ask(*told, question)


@pytest.mark.parametrize(("told", "question"), UNTOLD, ids=[row[1] for row in UNTOLD])
async def test_what_was_not_told_is_not_known(told: list[str], question: str) -> None:
    assert "I don't know" in await ask(*told, question)


@pytest.mark.parametrize(("told", "question", "expected"), TOLD[::3], ids=[row[1] for row in TOLD[::3]])
async def test_asked_before_told_it_does_not_know(told: list[str], question: str, expected: str) -> None:
    assert "I don't know" in await ask(question)
    assert expected in await ask(question, *told, question)


async def test_the_newest_statement_wins_and_the_old_one_is_not_told() -> None:
    answer = await ask("My favourite tea is Assam.", "My favorite tea is now oolong.", "What's my favourite tea?")
    assert "oolong" in answer
    assert "Assam" not in answer


async def test_two_questions_in_one_sentence_get_two_answers() -> None:
    told = "I teach physics at Utrecht and I prefer morning lectures."
    answer = await ask(told, "Remind me which lectures I prefer, and where I teach.")
    assert "morning" in answer
    assert "Utrecht" in answer


BLOCK = """You are a helpful assistant. Be concise. Use what you know about the user.
<memories>
- User stated a preference: eu-frankfurt-1 for training.
- [user] role_1f: User's role / focus: search ranking.
- The user lives in Turin and works at a bakery.
- {"key": "n1", "content": "User's dog is called Bruno."}
</memories>"""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which region do I prefer for training?", "eu-frankfurt-1"),
        ("What do I work on?", "search ranking"),
        ("Where do I live?", "Turin"),
        ("What's my dog's name?", "Bruno"),
        ("What's my name?", "I don't know"),
        ("What's my favourite food?", "I don't know"),
    ],
)
async def test_memories_in_the_system_prompt_are_known(question: str, expected: str) -> None:
    assert expected in await ask(question, system=BLOCK)


async def test_what_is_said_now_counts_over_what_was_remembered() -> None:
    assert "Genoa" in await ask("I live in Genoa now.", "Where do I live?", system=BLOCK)


async def test_a_statement_is_acknowledged_in_the_second_person() -> None:
    assert await ask("I'm Ines and I keep bees.") == "Got it: you're Ines, and you keep bees."


async def test_a_question_about_the_model_is_not_answered_with_the_user() -> None:
    answer = await ask("My name is Rosa.", "What's your name?")
    assert "Rosa" not in answer
    assert "offline mock model" in answer


async def test_everything_known_can_be_asked_for() -> None:
    answer = await ask("My name is Rosa.", "I grow tomatoes.", "What do you know about me?")
    assert "Rosa" in answer
    assert "tomatoes" in answer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello!", "Hello!"),
        ("Thanks!", "welcome"),
        ("Compose a sonnet", "can't do that"),
        ("Wire 5 dollars", "can't do that"),
    ],
)
async def test_what_it_cannot_do_it_says(text: str, expected: str) -> None:
    assert expected in await ask(text)


@pytest.mark.parametrize(
    "text",
    ["word " * 20_000, "a" * 100_000, "I like " * 20_000, "is 's " * 20_000, "\ud800\0", "?"],
    ids=["words", "one word", "halves", "verbs", "no text", "mark"],
)
async def test_any_text_gets_an_answer(text: str) -> None:
    assert await ask(text)
