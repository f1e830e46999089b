# ruff: noqa: E501 - one city a line is what makes the table possible to check by eye
"""Facts about a hundred real cities, for Guess My City.

Cities and populations (about the year 2000) are those of LMRL-Gym's list (arXiv 2311.18232). The other facts are this
project's own, from general knowledge and not checked against a source. Every two cities differ in a fact that the game
has questions for (a test proves it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

COUNTRIES = """
Argentina | South America | Spanish | peso
Australia | Oceania | English | Australian dollar
Bangladesh | Asia | Bengali | taka
Brazil | South America | Portuguese | real
Canada | North America | English | Canadian dollar
Chile | South America | Spanish | peso
China | Asia | Mandarin | yuan
Colombia | South America | Spanish | peso
Congo | Africa | French | franc
Cuba | North America | Spanish | peso
Ecuador | South America | Spanish | US dollar
Egypt | Africa | Arabic | pound
Ethiopia | Africa | Amharic | birr
France | Europe | French | euro
Germany | Europe | German | euro
Hong Kong | Asia | Cantonese | dollar
Hungary | Europe | Hungarian | forint
India | Asia | Hindi | rupee
Indonesia | Asia | Indonesian | rupiah
Iran | Asia | Persian | rial
Iraq | Asia | Arabic | dinar
Italy | Europe | Italian | euro
Ivory Coast | Africa | French | franc
Japan | Asia | Japanese | yen
Mexico | North America | Spanish | peso
Morocco | Africa | Arabic | dirham
Myanmar | Asia | Burmese | kyat
North Korea | Asia | Korean | won
Pakistan | Asia | Urdu | rupee
Peru | South America | Spanish | sol
Philippines | Asia | Filipino | peso
Romania | Europe | Romanian | leu
Russia | Europe | Russian | ruble
Singapore | Asia | English | dollar
South Korea | Asia | Korean | won
Spain | Europe | Spanish | euro
Taiwan | Asia | Mandarin | dollar
Thailand | Asia | Thai | baht
Turkey | Asia | Turkish | lira
Ukraine | Europe | Ukrainian | hryvnia
United Kingdom | Europe | English | pound
United States | North America | English | US dollar
Uzbekistan | Asia | Uzbek | som
Venezuela | South America | Spanish | bolivar
Vietnam | Asia | Vietnamese | dong
"""
"""Country | continent | main language | currency."""

CITIES = """
Seoul | | South Korea | Seoul | | Han River | N | capital | 10.2 | royal palaces
Sao Paulo | San Paolo, San Paulo | Brazil | Sao Paulo | | Tiete | S | | 10.0 | skyscrapers
Bombay | Mumbai, Bumbay | India | Maharashtra | the Arabian Sea | | N | | 9.9 | film studios
Jakarta | | Indonesia | Jakarta | the Java Sea | Ciliwung | S | capital | 9.4 | a national monument
Karachi | | Pakistan | Sindh | the Arabian Sea | | N | | 9.3 | a mausoleum
Moscow | Moskva | Russia | Moscow | | Moskva | N | capital | 8.3 | a fortress
Istanbul | Constantinople | Turkey | Istanbul | the Sea of Marmara | | N | | 8.3 | mosques
Mexico City | | Mexico | Mexico City | | | N | capital | 8.2 | a great square
Shanghai | | China | Shanghai | the East China Sea | Huangpu | N | | 8.2 | skyscrapers
Tokyo | | Japan | Kanto | the Pacific Ocean | Sumida | N | capital | 8.1 | a tower
New York | New York City | United States | New York | the Atlantic Ocean | Hudson | N | | 8.0 | a statue
Bangkok | | Thailand | Bangkok | the Gulf of Thailand | Chao Phraya | N | capital | 7.5 | temples
Beijing | Peking | China | Beijing | | | N | capital | 7.4 | royal palaces
Delhi | New Delhi | India | Delhi | | Yamuna | N | capital | 7.2 | a fortress
London | | United Kingdom | England | | Thames | N | capital | 7.1 | a tower
Hong Kong | Hongkong | Hong Kong | Hong Kong | the South China Sea | | N | | 6.8 | a harbour
Cairo | | Egypt | Cairo | | Nile | N | capital | 6.8 | museums
Tehran | Teheran | Iran | Tehran | | | N | capital | 6.8 | a tower
Bogota | | Colombia | Bogota | | Bogota River | N | capital | 6.4 | museums
Bandung | | Indonesia | West Java | | Cikapundung | S | | 5.9 | volcanoes
Tianjin | | China | Tianjin | the Bohai Sea | Hai River | N | | 5.9 | a Ferris wheel
Lima | | Peru | Lima | the Pacific Ocean | Rimac | S | capital | 5.7 | cliffs by the sea
Rio de Janeiro | Rio | Brazil | Rio de Janeiro | the Atlantic Ocean | | S | | 5.6 | a statue
Lahore | | Pakistan | Punjab | | Ravi | N | | 5.1 | mosques
Bogor | | Indonesia | West Java | | Ciliwung | S | | 5.0 | a botanical garden
Santiago | | Chile | Santiago | | Mapocho | S | capital | 4.8 | high mountains nearby
St Petersburg | Saint Petersburg, Petersburg, Leningrad | Russia | St Petersburg | the Baltic Sea | Neva | N | | 4.7 | museums
Shenyang | | China | Liaoning | | Hun River | N | | 4.7 | royal palaces
Calcutta | Kolkata | India | West Bengal | | Hooghly | N | | 4.4 | bridges
Wuhan | | China | Hubei | | Yangtze | N | | 4.0 | a tower
Sydney | | Australia | New South Wales | the Pacific Ocean | Parramatta | S | | 4.0 | an opera house
Guangzhou | Canton | China | Guangdong | | Pearl River | N | | 3.9 | a tower
Singapore | | Singapore | Singapore | the South China Sea | Singapore River | N | capital | 3.9 | a botanical garden
Madras | Chennai | India | Tamil Nadu | the Bay of Bengal | Cooum | N | | 3.8 | beaches
Baghdad | | Iraq | Baghdad | | Tigris | N | capital | 3.8 | museums
Pusan | Busan | South Korea | Pusan | the Korea Strait | Nakdong | N | | 3.8 | beaches
Los Angeles | | United States | California | the Pacific Ocean | Los Angeles River | N | | 3.7 | film studios
Yokohama | | Japan | Kanto | the Pacific Ocean | Tsurumi | N | | 3.4 | a Ferris wheel
Dhaka | Dacca | Bangladesh | Dhaka | | Buriganga | N | capital | 3.4 | a fortress
Berlin | | Germany | Berlin | | Spree | N | capital | 3.4 | a monumental gate
Alexandria | | Egypt | Alexandria | the Mediterranean Sea | | N | | 3.3 | a library
Bangalore | Bengaluru | India | Karnataka | | | N | | 3.3 | software companies
Malang | | Indonesia | East Java | | Brantas | S | | 3.2 | apple orchards
Hyderabad | | India | Telangana | | Musi | N | | 3.1 | a fortress
Chongqing | Chungking | China | Chongqing | | Yangtze | N | | 3.1 | spicy food
Ho Chi Minh City | Saigon | Vietnam | Ho Chi Minh City | the South China Sea | Saigon River | N | | 3.0 | museums
Haerbin | Harbin | China | Heilongjiang | | Songhua | N | | 3.0 | ice sculptures
Ankara | | Turkey | Ankara | | | N | capital | 3.0 | a mausoleum
Buenos Aires | | Argentina | Buenos Aires | | Rio de la Plata | S | capital | 3.0 | dancing
Chengdu | | China | Sichuan | | Jin River | N | | 3.0 | giant pandas
Ahmedabad | | India | Gujarat | | Sabarmati | N | | 3.0 | textile mills
Casablanca | | Morocco | Casablanca | the Atlantic Ocean | | N | | 2.9 | mosques
Chicago | | United States | Illinois | | Chicago River | N | | 2.9 | skyscrapers
Xian | Xi'an | China | Shaanxi | | Wei River | N | | 2.9 | clay warriors
Madrid | | Spain | Madrid | | Manzanares | N | capital | 2.8 | museums
Surabaya | | Indonesia | East Java | the Madura Strait | Brantas | S | | 2.8 | bridges
Pyong Yang | Pyongyang | North Korea | Pyongyang | | Taedong | N | capital | 2.7 | a tower
Nanjing | Nanking | China | Jiangsu | | Yangtze | N | | 2.7 | a mausoleum
Kinshasa | | Congo | Kinshasa | | Congo River | S | capital | 2.7 | music
Rome | Roma | Italy | Lazio | | Tiber | N | capital | 2.6 | ancient ruins
Taipei | | Taiwan | Taipei | | Tamsui | N | capital | 2.6 | skyscrapers
Osaka | | Japan | Kansai | the Seto Inland Sea | Yodo | N | | 2.6 | a castle
Kiev | Kyiv, Kiew | Ukraine | Kyiv | | Dnieper | N | capital | 2.6 | churches
Yangon | Rangoon | Myanmar | Yangon | | Yangon River | N | | 2.5 | temples
Toronto | | Canada | Ontario | | Don River | N | | 2.5 | a tower
Zibo | | China | Shandong | | | N | | 2.5 | ceramics
Dalian | | China | Liaoning | the Yellow Sea | | N | | 2.5 | beaches
Taegu | Daegu | South Korea | Taegu | | Geumho | N | | 2.4 | textile mills
Addis Ababa | | Ethiopia | Addis Ababa | | | N | capital | 2.4 | museums
Jinan | | China | Shandong | | Yellow River | N | | 2.4 | springs
Salvador | | Brazil | Bahia | the Atlantic Ocean | | S | | 2.3 | a carnival
Inchon | Incheon | South Korea | Inchon | the Yellow Sea | | N | | 2.3 | a large airport
Semarang | | Indonesia | Central Java | the Java Sea | | S | | 2.2 | colonial buildings
Giza | | Egypt | Giza | | Nile | N | | 2.2 | pyramids
Changchun | | China | Jilin | | Yitong | N | | 2.2 | car factories
Havana | Havanna | Cuba | Havana | the Straits of Florida | Almendares | N | capital | 2.2 | cigars
Nagoya | | Japan | Chubu | the Pacific Ocean | Shonai | N | | 2.2 | a castle
Belo Horizonte | | Brazil | Minas Gerais | | | S | | 2.2 | modern architecture
Paris | | France | Ile de France | | Seine | N | capital | 2.2 | a tower
Tashkent | | Uzbekistan | Tashkent | | Chirchiq | N | capital | 2.1 | markets
Fortaleza | | Brazil | Ceara | the Atlantic Ocean | | S | | 2.1 | beaches
Sukabumi | | Indonesia | West Java | | | S | | 2.1 | tea plantations
Cali | | Colombia | Valle del Cauca | | Cauca | N | | 2.1 | dancing
Guayaquil | | Ecuador | Guayas | | Guayas | S | | 2.1 | a riverside promenade
Qingdao | Tsingtao | China | Shandong | the Yellow Sea | | N | | 2.1 | beer
Izmir | Smyrna | Turkey | Izmir | the Aegean Sea | | N | | 2.1 | a tower
Cirebon | | Indonesia | West Java | the Java Sea | | S | | 2.1 | royal palaces
Taiyuan | | China | Shanxi | | Fen River | N | | 2.1 | coal mines
Brasilia | | Brazil | the Federal District | | | S | capital | 2.0 | modern architecture
Bucuresti | Bucharest | Romania | Bucharest | | Dambovita | N | capital | 2.0 | a huge parliament
Faisalabad | | Pakistan | Punjab | | | N | | 2.0 | textile mills
Quezon City | | Philippines | Metro Manila | | Marikina | N | | 2.0 | universities
Medan | | Indonesia | North Sumatra | | Deli River | N | | 2.0 | royal palaces
Houston | | United States | Texas | | Buffalo Bayou | N | | 2.0 | space flight
Abidjan | | Ivory Coast | Abidjan | the Atlantic Ocean | | N | | 1.9 | a lagoon
Mashhad | Meshed | Iran | Razavi Khorasan | | | N | | 1.9 | a holy shrine
Medellin | | Colombia | Antioquia | | Medellin River | N | | 1.9 | flowers
Kanpur | | India | Uttar Pradesh | | Ganges | N | | 1.9 | leather goods
Budapest | | Hungary | Budapest | | Danube | N | capital | 1.8 | thermal baths
Caracas | | Venezuela | Caracas | | Guaire | N | capital | 1.8 | a cable car
"""
"""City | other names | country | region | sea | river | hemisphere | capital | millions of people | known for."""


@dataclass(frozen=True)
class City:
    """A city and its facts.

    Args:
        name: name to guess.
        variants: other names that count as a guess.
        facts: values by the keys of ``FACTS``; an empty value means that the city has none.
    """

    name: str
    variants: tuple[str, ...]
    facts: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the city."""
        return (self.name, *self.variants)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # nothing in it ever changes, so forks may share it


@dataclass(frozen=True, slots=True)
class Fact:
    """A kind of fact about cities.

    Args:
        questions: questions for it, in training and in held-out wording.
        answers: answers, likewise, with a slot for the value.
        none: answer for a city without this fact.
        keywords: words that identify a free question.
        label: the fact in a list of facts, with a slot for the value.
    """

    questions: tuple[str, str]
    answers: tuple[str, str]
    none: str
    keywords: tuple[str, ...]
    label: str


FACTS: Mapping[str, Fact] = {
    "country": Fact(
        ("Which country is it in?", "Which nation does it belong to?"),
        ("It is in {}.", "It belongs to {}."),
        "It is not in any country.",
        ("country", "nation", "state it belongs to"),
        "country: {}",
    ),
    "continent": Fact(
        ("Which continent is it on?", "Which landmass is it part of?"),
        ("Its continent is {}.", "It is part of {}."),
        "It is not on any continent.",
        ("continent", "landmass", "part of the world"),
        "continent: {}",
    ),
    "region": Fact(
        ("Which region is it in?", "What is the province around it called?"),
        ("Its region is {}.", "The province is called {}."),
        "It is not in any region.",
        ("region", "province", "state", "district", "county"),
        "region: {}",
    ),
    "language": Fact(
        ("Which language do people speak there?", "What language do you hear in its streets?"),
        ("People speak {}.", "You hear {}."),
        "There is no common language.",
        ("language", "languages", "speak", "spoken", "tongue"),
        "language: {}",
    ),
    "money": Fact(
        ("What money do people use there?", "What do you pay with there?"),
        ("People use the {}.", "You pay with the {}."),
        "People do not use money.",
        ("money", "currency", "pay", "coins"),
        "currency: {}",
    ),
    "sea": Fact(
        ("Is it by the sea?", "Which shore is it on?"),
        ("It is on {}.", "Its shore is that of {}."),
        "It is not by the sea.",
        ("by the sea", "sea", "coast", "coastal", "ocean", "shore", "landlocked"),
        "sea: {}",
    ),
    "river": Fact(
        ("Which river flows through it?", "What water runs between its banks?"),
        ("Its river is the {}.", "The {} runs between its banks."),
        "It has no large river.",
        ("river", "rivers", "banks"),
        "river: {}",
    ),
    "hemisphere": Fact(
        ("Which hemisphere is it in?", "Which side of the equator is it on?"),
        ("It is in the {} hemisphere.", "It is on the {} side."),
        "It is on the equator.",
        ("hemisphere", "equator", "half of the globe"),
        "hemisphere: {}",
    ),
    "capital": Fact(
        ("Is it a capital?", "Is it the seat of a national government?"),
        ("It is a national {}.", "Yes, it is a {}."),
        "It is not a national capital.",
        ("capital", "government", "parliament sit"),
        "national capital: {}",
    ),
    "people": Fact(
        ("How many people live there?", "What is its number of inhabitants?"),
        ("About {} million people live there.", "It has about {} million inhabitants."),
        "No one lives there.",
        ("population", "inhabitants", "how many people", "how big", "how large", "people live"),
        "population in millions: {}",
    ),
    "known": Fact(
        ("What is it known for?", "What do travelers come there for?"),
        ("It is known for {}.", "Travelers come for {}."),
        "It is known for nothing.",
        (
            "known for", "famous", "landmark", "landmarks", "sights", "attraction", "attractions", "travelers",
            "travellers", "tourists",
        ),
        "known for: {}",
    ),
}  # fmt: skip
"""Kinds of facts, in the order in which a game lists them."""


@lru_cache(maxsize=1)
def real_cities() -> tuple[City, ...]:
    """Return the hundred cities, in LMRL-Gym's order."""
    countries = {name: (name, *facts) for name, *facts in map(_cells, COUNTRIES.strip().splitlines())}
    return tuple(_city(_cells(line), countries) for line in CITIES.strip().splitlines())


def _city(cells: list[str], countries: Mapping[str, tuple[str, ...]]) -> City:
    name, variants, country, region, sea, river, half, capital, people, known = cells
    _, continent, language, money = countries[country]
    hemisphere = {"N": "northern", "S": "southern"}[half]
    values = (country, continent, region, language, money, sea, river, hemisphere, capital, people, known)
    return City(name, tuple(filter(None, variants.split(", "))), dict(zip(FACTS, values, strict=True)))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")]
