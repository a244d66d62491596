"""The embedded sentence pairs: German and English phrases made from Unicode's locale data (CLDR).

Dates, times, countries, languages, currencies and units are written by Babel in both languages and
put into short sentences. The version is pinned, so the text is the same on every machine. What a
sentence speaks of is drawn so that some words are frequent and most are rare.
"""

import re
import warnings
from collections.abc import Callable, Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from importlib import metadata
from random import Random

from babel import Locale, dates, lists, numbers, units

from course_lab.corpora.docstrings import ANEW, split_of
from course_lab.corpora.translation import languages_of
from course_lib.data.bpe import normalise
from course_lib.data.corpus import SPLITS
from course_lib.data.pairs import SentencePairs, encoded
from course_lib.data.rows import Texts, compact_columns
from course_lib.errors import CourseError
from course_lib.ranges import Count, checked

VERSION = "2.18.0"  # of Babel; what changes here changes the corpus
LICENCE = "Unicode Licence v3 (CLDR, in Babel); sentences CC0"
SHA256 = {
    "train.de": "36985000ff9099e1a5cbabdee177ceac64e25b0f1234d833e26fb94ac28b4e72",
    "train.en": "6b75ee1894f1c7c67f86e5869132cf2b85b1b347d36778ce72786a2eb452587d",
    "valid.de": "50cf63ca89494520b3ccee8a6e1780babf4d1862b2c714a78f3fc057fdc3454b",
    "valid.en": "13d3340b1bc37469a7971b02c5b67de0f384ca4c5e4422985ac873ef47018d65",
    "test.de": "7c030867ab9491e6ec5d423f97c0d6bce9fe03076c4fd4bde82e96a19aec683f",
    "test.en": "76924344e214c9353ac53af0810eb472922311451b20670dfd282e76fe4421ab",
}
PAIRS, WORDS = (13_625, 758, 794), 2_000
DRAWS = 400  # of each phrase; fewer sentences come of a phrase that can say less

PHRASES = (
    ("Heute ist {weekday}.", "Today is {weekday}."),
    ("Das Konzert beginnt am {date} um {time} Uhr.", "The concert begins on {date} at {time}."),
    ("Der Zug fährt um {time} Uhr ab.", "The train leaves at {time}."),
    ("Der nächste Zug kommt um {time} Uhr.", "The next train arrives at {time}."),
    ("Sie wurde am {date} geboren.", "She was born on {date}."),
    ("Das Museum ist am {weekday} geschlossen.", "The museum is closed on {weekday}."),
    ("Die Ausstellung war im {month} zu sehen.", "The exhibition was on display in {month}."),
    ("Wir treffen uns {ahead}.", "We will meet {ahead}."),
    ("Das war {ago}.", "That was {ago}."),
    ("Er hat {ago} angerufen.", "He called {ago}."),
    ("Zeitraum: {interval}.", "Period: {interval}."),
    ("Bericht für das {quarter}.", "Report for the {quarter}."),
    ("Reiseziel: {country}.", "Destination: {country}."),
    ("Dieses Gebiet heißt {country}.", "This territory is called {country}."),
    ("Auf der Karte stehen {countries}.", "The map shows {countries}."),
    ("Von wo kommt der Brief? {country}.", "Where does the letter come from? {country}."),
    ("Reiseziel: {country}. Abfahrt: {date}.", "Destination: {country}. Departure: {date}."),
    ("Ankunft um {time} Uhr, Ort: {country}.", "Arrival at {time}, place: {country}."),
    ("Er lernt {language}.", "He is learning {language}."),
    ("Sie spricht {language} und {language2}.", "She speaks {language} and {language2}."),
    ("Das Buch gibt es auf {language}.", "The book is available in {language}."),
    ("Sprechen Sie {language}?", "Do you speak {language}?"),
    ("Wir übersetzen {languages}.", "We translate {languages}."),
    ("Land: {country}. Sprache: {language}.", "Country: {country}. Language: {language}."),
    ("Das Fahrrad kostet {money}.", "The bicycle costs {money}."),
    ("Der Preis beträgt {price}.", "The price is {price}."),
    ("Sie hat {money} gespart.", "She saved {money}."),
    ("Land: {country}. Währung: {currency}.", "Country: {country}. Currency: {currency}."),
    ("Das Zimmer kostet {price} pro Nacht.", "The room costs {price} per night."),
    ("Der Weg ist {length} lang.", "The path is {length} long."),
    ("Es sind noch {length} bis zum Ziel.", "It is another {length} to the destination."),
    ("Das Paket wiegt {mass}.", "The package weighs {mass}."),
    ("Die Geschwindigkeit beträgt {speed}.", "The speed is {speed}."),
    ("Die Fahrt dauert {duration}.", "The trip takes {duration}."),
    ("Der Film dauert {duration}.", "The movie lasts {duration}."),
    ("In die Flasche passen {volume}.", "The bottle holds {volume}."),
    ("Das Grundstück misst {area}.", "The property measures {area}."),
    ("Draußen sind es {temperature}.", "It is {temperature} outside."),
    ("Die Datei hat {data}.", "The file has {data}."),
    ("Die Anlage leistet {power}.", "The plant delivers {power}."),
    ("Die Preise steigen um {percent}.", "Prices are rising by {percent}."),
    ("Der Anteil liegt bei {percent}.", "The share is {percent}."),
    ("Das Buch hat {count} Seiten.", "The book has {count} pages."),
    ("Die Stadt hat {number} Einwohner.", "The city has {number} inhabitants."),
)
UNITS = {
    "length": "centimeter foot inch kilometer light-year meter mile millimeter nautical-mile yard",
    "mass": "gram kilogram milligram ounce pound ton tonne",
    "speed": "kilometer-per-hour knot meter-per-second mile-per-hour",
    "duration": "day decade hour minute month second week year",
    "volume": "centiliter cubic-centimeter cubic-meter gallon liter milliliter pint teaspoon",
    "area": "acre hectare square-centimeter square-foot square-kilometer square-meter square-mile",
    "temperature": "celsius fahrenheit kelvin",
    "data": "bit byte gigabyte kilobyte megabyte terabyte",
    "power": "gigawatt horsepower kilowatt megawatt watt",
}
NO_COUNTRY = {"EU", "EZ", "QO", "UN", "XA", "XB", "ZZ"}
NO_LANGUAGE = {"mis", "mul", "root", "und", "zxx"}


@checked
def load_cldr(
    direction: str = "de-en", pieces: Count = WORDS, lowercase: bool = False
) -> SentencePairs:
    """Return German and English phrases, in which no sentence occurs twice in either language.

    With another Babel than the pinned one a warning says so; `CourseError` if the pinned one gives
    another text.
    """
    languages, installed = languages_of("cldr", direction), metadata.version("babel")
    texts = generate()
    sha256 = {f"{split}.{x}": side.digest() for split in SPLITS for x, side in texts[split].items()}
    if installed != VERSION:
        warnings.warn(
            f"the cldr corpus is not the course's, figures will differ: Babel {installed} for "
            f"{VERSION} (SHA-256 of train.de {sha256['train.de']}); {ANEW}",
            stacklevel=3,
        )
    elif sha256 != SHA256:
        raise CourseError(
            f"cldr: Babel is the pinned {VERSION} but its text is not (was a file edited?); {ANEW}"
        )
    source, target = languages
    sides = {split: (texts[split][source], texts[split][target]) for split in SPLITS}
    origin = {"licence": LICENCE, "source": f"locale data of Babel {installed}"}
    return encoded("cldr", sides, direction, pieces, lowercase, **origin)


def generate() -> dict[str, dict[str, Texts]]:
    """Return sentences by split and language; its German sentence decides a pair's split."""
    rows: dict[str, list[tuple[str, str]]] = {split: [] for split in SPLITS}
    seen: set[str] = set()
    for pair in sentences():
        keys = {
            f"{x} {normalise(text, lowercase=True)}" for x, text in zip("de", pair, strict=True)
        }
        if not keys & seen:
            seen |= keys
            rows[split_of(pair[0])].append(pair)
    return {
        split: dict(zip(("de", "en"), compact_columns(pairs), strict=True))
        for split, pairs in rows.items()
    }


def sentences() -> Iterator[tuple[str, str]]:
    """Yield pairs (German, English), one of each phrase in turn; some come more than once."""
    slots = Slots()
    for _ in range(DRAWS):
        for german, english in PHRASES:
            filled = {name: slots.fill(name) for name in re.findall(r"{(\w+)}", german)}
            both = (
                " ".join(text.format(**{name: x[i] for name, x in filled.items()}).split())
                for i, text in enumerate((german, english))
            )
            source, target = both
            yield source, target


class Slots:
    """The slots of a phrase are filled from a fixed seed, in German and English.

    Chance comes from `Random.random` alone, which is the same in every Python.
    """

    def __init__(self):
        self.chance, self.locales = Random(0).random, (Locale("de"), Locale("en"))
        self.names = {
            "country": self.shared("territories", lambda x: x.isalpha() and x not in NO_COUNTRY),
            "language": self.shared("languages", lambda x: x not in NO_LANGUAGE),
            "currency": self.shared("currencies", lambda x: x[0] != "X"),
        }

    def shared(self, table: str, fit: Callable[[str], bool]) -> list[str]:
        """Return the fitting codes that both languages have a name for, in an order of chance."""
        german, english = (getattr(locale, table) for locale in self.locales)
        codes = sorted(code for code in german if code in english and fit(code))
        return sorted(codes, key=lambda _: self.chance())

    def below(self, n: int) -> int:
        return int(self.chance() * n)

    def one_of(self, codes: list[str]) -> str:
        """Return one of the codes, the first ones often, the last ones seldom."""
        u = self.chance()
        return codes[int(u * u * len(codes))]

    def both(self, write, *values, **options) -> tuple[str, ...]:
        return tuple(write(*values, locale=locale, **options) for locale in self.locales)

    def fill(self, slot: str) -> tuple[str, ...]:
        """Return one text for a slot, in both languages."""
        slot = slot.rstrip("0123456789")
        if slot in UNITS:
            return self.unit(slot)
        return getattr(self, slot)()

    def unit(self, slot: str) -> tuple[str, ...]:
        kind = "digital" if slot == "data" else slot
        name = f"{kind}-{self.one_of(UNITS[slot].split())}"
        amount = Decimal(1 + self.below(500)) / (1, 2, 10)[self.below(3)]
        return self.both(units.format_unit, amount, name, "long")

    def day(self) -> date:
        return date(1950, 1, 1) + timedelta(days=self.below(36_525))

    def date(self):
        return self.both(dates.format_date, self.day(), "long")

    def weekday(self):
        return self.both(dates.format_date, self.day(), "full")

    def month(self):
        return self.both(dates.format_date, self.day(), "MMMM y")

    def quarter(self):
        return self.both(dates.format_date, self.day(), "QQQQ y")

    def interval(self):
        start = self.day()
        return self.both(
            dates.format_interval, start, start + timedelta(days=1 + self.below(60)), "yMMMd"
        )

    def time(self):
        return self.both(dates.format_time, time(self.below(24), self.below(60)), "short")

    def ago(self, sign: int = -1):
        unit = self.one_of(["day", "hour", "minute", "week", "second"])
        away = timedelta(**{f"{unit}s": sign * (1 + self.below(59))})
        options = {"granularity": unit, "threshold": 1e9, "add_direction": True}
        return self.both(dates.format_timedelta, away, **options)

    def ahead(self):
        return self.ago(1)

    def named(self, kind: str, table: str) -> tuple[str, ...]:
        code = self.one_of(self.names[kind])
        return tuple(getattr(locale, table)[code] for locale in self.locales)

    def country(self):
        return self.named("country", "territories")

    def language(self):
        return self.named("language", "languages")

    def currency(self):
        return self.named("currency", "currencies")

    def listed(self, one) -> tuple[str, ...]:
        items = zip(*(one() for _ in range(2 + self.below(3))), strict=True)
        return tuple(
            lists.format_list(x, locale=y) for x, y in zip(items, self.locales, strict=True)
        )

    def countries(self):
        return self.listed(self.country)

    def languages(self):
        return self.listed(self.language)

    def money(self, form: str = "name"):
        amount = Decimal(1 + self.below(20_000)) / (1, 4, 100)[self.below(3)]
        code = self.one_of(self.names["currency"])
        return self.both(numbers.format_currency, amount, code, format_type=form)

    def price(self):
        return self.money("standard")

    def percent(self):
        share = Decimal(1 + self.below(999)) / 1000
        return self.both(numbers.format_percent, share, decimal_quantization=False)

    def count(self):
        return self.both(numbers.format_decimal, 2 + self.below(3_000))

    def number(self):
        amount = (1 + self.below(999)) * 10 ** (3 + self.below(4))
        return self.both(
            numbers.format_compact_decimal, amount, format_type="long", fraction_digits=1
        )
