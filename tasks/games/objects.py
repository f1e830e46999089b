# ruff: noqa: E501 - one attribute a line is what makes the table possible to check by eye
"""Facts for Twenty Questions: 158 everyday objects in 17 categories, and the yes/no attributes of each.

Objects and categories are LMRL-Gym's (arXiv 2311.18232). The attributes are this project's own, written and checked by
hand once; every two objects differ in at least one of them (a test proves it). Judgment calls are decided here and
nowhere else: a cut fruit is not alive, a tomato is a vegetable, a computer is a desktop machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

CATEGORIES = {
    "sports": "basketball, football, baseball, soccer ball, golf ball, tennis ball, volleyball, tennis racket, "
    "baseball bat, helmet",
    "animals": "cat, dog, horse, cow, sheep, rabbit, lion, tiger, bear, elephant",
    "fruits": "apple, banana, orange, strawberry, grape, watermelon, pineapple, mango, cantaloupe, peach",
    "vehicles": "car, truck, motorcycle, boat, airplane, train, bus, helicopter, scooter, ship",
    "clothes": "shirt, pants, jacket, dress, skirt, belt, shoes, boots, socks, hat, scarf",
    "electronics": "computer, smartphone, television, headphones, monitor, camera, microwave, refrigerator, blender, "
    "keyboard",
    "instruments": "piano, guitar, drum, violin, saxophone, flute, trumpet, clarinet, harp, trombone",
    "furniture": "chair, table, bed, desk, couch, dresser, bookcase, nightstand, mattress, pillow",
    "office": "pen, paper, stapler, printer, calculator, battery, toothbrush, toothpaste, pencil, sharpie, scissors, "
    "key, diary, calendar",
    "vegetables": "carrot, potato, broccoli, tomato, onion, spinach, corn, peas, celery, cucumber",
    "art": "painting, paintbrush, canvas, eraser, marker, glue, sculpture",
    "kitchen": "knife, spoon, fork, plate, bowl, pot, pan, cup, chopsticks, whisk",
    "nature": "rock, tree, bush, mountain, forest, ocean, sea, lake, river, meteorite, cactus",
    "toys": "lego, doll, kite, puzzle, stuffed animal",
    "jewelry": "earrings, necklace, bracelet, ring, brooch, hairclip, pendant, watch, locket",
    "garden": "gloves, shovel, rake, watering can, lawn mower",
    "tools": "hammer, screwdriver, wrench, saw, pliers, drill",
}
"""Objects of each category."""

VARIANTS = {
    "airplane": "plane",
    "pants": "pant, pair of pants, trousers",
    "shoes": "shoe, pair of shoes",
    "boots": "boot, pair of boots",
    "socks": "sock, pair of socks",
    "television": "tv",
    "headphones": "headphone, pair of headphones",
    "monitor": "computer monitor",
    "microwave": "microwave oven",
    "refrigerator": "fridge",
    "keyboard": "computer keyboard",
    "drum": "drums",
    "couch": "sofa",
    "paper": "piece of paper, sheet of paper",
    "battery": "battery pack, pack of batteries",
    "scissors": "scissor, pair of scissors",
    "peas": "pea",
    "painting": "canvas painting, oil painting, watercolor painting",
    "canvas": "painting canvas",
    "eraser": "pencil eraser",
    "glue": "glue stick, bottle of glue",
    "pot": "cooking pot",
    "pan": "saucepan, frying pan",
    "chopsticks": "chopstick, pair of chopsticks",
    "lego": "lego set",
    "doll": "toy doll, plush doll",
    "puzzle": "jigsaw puzzle",
    "stuffed animal": "plush toy",
    "earrings": "earring, pair of earrings",
    "gloves": "glove, pair of gloves",
    "pliers": "plier, pair of pliers",
    "motorcycle": "motorbike",
}
"""Other names that count as a guess."""

TABLE = """
alive | alive | a living thing | alive, living, lives, live | @animals tree bush forest cactus
animal | an animal | a creature | animal, animals, mammal, creature, beast | @animals
pet | kept as a pet | a house pet | pet, pets | cat dog rabbit
farm | a farm animal | livestock | farm, livestock | horse cow sheep
feline | feline | of the cat family | feline, felines, cat family, big cat | cat lion tiger
meat | a meat eater | a carnivore | carnivore, eats meat, eat meat, meat eater, eater of meat | cat dog lion tiger bear
striped | striped | covered with stripes | striped, stripes | tiger watermelon
travel | something people ride or travel in | a means of transport | ride, riding, travel, transport, transportation, passengers | @vehicles horse elephant
food | food | edible | food, edible, eat, eating it, eaten | @fruits @vegetables
fruit | a fruit | a sweet fruit | fruit, fruits | @fruits
vegetable | a vegetable | a kind of veggie | vegetable, vegetables, veggie | @vegetables
tropical | tropical | from the tropics | tropical, tropics | banana pineapple mango
melon | a melon | one of the melons | melon, melons | watermelon cantaloupe
seeds | full of seeds | a thing with seeds inside | seeds, seed | apple orange watermelon cantaloupe cucumber tomato grape
pit | something with one large pit inside | a stone fruit | pit, stone fruit | mango peach
underground | grown underground | a root or a bulb | underground, under the ground, root, roots, bulb | carrot potato onion
leaves | eaten for its leaves | a leaf vegetable | leaf, leafy, leaves | spinach
red | usually red | red in color | red | apple strawberry tomato
yellow | usually yellow | yellow in color | yellow | banana pineapple corn tennis_ball pencil
green | usually green | green in color | green | broccoli spinach peas celery cucumber watermelon cactus tree bush forest
orange_colour | usually orange in color | orange-colored | orange in color, orange in colour, orange colored, orange coloured, color orange, colour orange, usually orange | orange carrot basketball cantaloupe tiger mango
white | usually white | white in color | white | baseball golf_ball volleyball paper sheep toothpaste pillow mattress canvas refrigerator plate
black | usually black | black in color | black | piano television monitor camera sharpie clarinet headphones
natural | found in nature | not made by people | natural, in nature, nature, not made by people | @animals @fruits @vegetables @nature
manmade | man-made | manufactured | man made, manmade, artificial, manufactured, made by people, made by humans, built | @sports @vehicles @clothes @electronics @instruments @furniture @office @art @kitchen @toys @jewelry @garden @tools
plant | a plant or a part of a plant | a form of vegetation | plant, plants, vegetation | tree bush forest cactus @fruits @vegetables
light | light enough to carry in one hand | easy to carry with one hand | one hand, light enough, portable, carry | @sports @fruits -watermelon @clothes smartphone headphones camera keyboard guitar violin saxophone flute trumpet clarinet trombone pillow @office -printer @vegetables paintbrush eraser marker glue @kitchen rock @toys @jewelry gloves shovel rake watering_can @tools
heavy | too heavy for one person to lift | a very heavy thing | heavy, heavier, lift | horse cow lion tiger bear elephant @vehicles -scooter refrigerator piano bed couch dresser bookcase tree forest mountain ocean sea lake river
pocket | small enough for a pocket | a thing that fits in a pocket | pocket, tiny | golf_ball strawberry grape peas smartphone pen pencil sharpie marker key battery eraser calculator @jewelry
huge | bigger than a house | larger than a house | house, huge, enormous, gigantic | airplane train ship mountain forest ocean sea lake river
long | long and thin | elongated | long, thin, elongated | baseball_bat banana carrot celery cucumber pen pencil sharpie marker toothbrush paintbrush flute clarinet chopsticks belt scarf shovel rake screwdriver
round | round like a ball | spherical | round, spherical, sphere | basketball baseball soccer_ball golf_ball tennis_ball volleyball apple orange grape peach cantaloupe tomato onion peas
pair | called a pair | spoken of as a pair | pair, pairs, comes in two | pants shoes boots socks headphones earrings gloves scissors pliers chopsticks
metal | made mostly of metal | mainly metal | metal, metallic, steel, iron | @vehicles -boat saxophone flute trumpet trombone knife spoon fork pot pan whisk key scissors stapler hammer screwdriver wrench saw pliers shovel rake @jewelry -hairclip refrigerator microwave lawn_mower
wood | made mostly of wood | mainly wooden | wood, wooden | baseball_bat piano guitar violin harp clarinet chair table bed desk dresser bookcase nightstand pencil chopsticks tree forest
plastic | made mostly of plastic | mainly plastic | plastic | helmet pen marker sharpie toothbrush calculator keyboard headphones lego doll hairclip watering_can printer
fabric | made mostly of fabric | mainly cloth | fabric, cloth, cotton, textile | shirt pants jacket dress skirt socks hat scarf pillow mattress stuffed_animal canvas gloves kite
leather | often made of leather | often leathery | leather, leathery | belt shoes boots football baseball
paper_made | made of paper or cardboard | a paper product | paper or cardboard, cardboard, made of paper, paper product | paper diary calendar puzzle
ceramic | often made of ceramic | often porcelain | ceramic, porcelain, pottery | plate bowl cup
stone | made of stone | rocky | stone, made of rock, rocky | rock mountain meteorite
water | a body of water | made of water | body of water, made of water, water | ocean sea lake river
salty | salty | full of salt water | salty, salt, salt water, saltwater | ocean sea
flows | flowing in one direction | a running stream | flow, flows, flowing, stream | river
covers_earth | something that covers most of the Earth | spread over most of the planet | earth, planet | ocean
landscape | a part of the landscape | a place you can visit in nature | landscape, place, geographical | mountain forest ocean sea lake river
space | something from space | from outer space | space, outer space, sky | meteorite
wear | something you wear | worn on the body | wear, wears, worn, wearing | @clothes @jewelry gloves helmet headphones
clothing | clothing | a garment | clothing, clothes, garment, apparel | @clothes gloves
feet | worn on the feet | footwear | feet, foot, footwear | shoes boots socks
head | worn on the head | headgear | head, headgear, hair, ears | hat helmet headphones hairclip earrings
neck | worn around the neck | for the neck | neck | scarf necklace pendant locket
waist | worn around the waist | fastened at the waist | waist | belt pants skirt
legs | something that covers the legs | a cover for the legs | legs, leg | pants skirt dress
wrist | worn on the wrist | for the wrist | wrist | bracelet watch
hands | worn on the hands or fingers | for the fingers | fingers, finger, worn on the hands, worn on the hand | ring gloves
cold | worn mainly in cold weather | a winter garment | cold, winter | jacket scarf boots gloves
jewelry | jewelry | an ornament to wear | jewelry, jewellery, ornament | @jewelry
hangs | hung from a chain or an ear | a dangling ornament | chain, dangle, dangling | earrings pendant locket
opens | an ornament that opens | an ornament with a picture inside | opens, picture inside | locket
pinned | pinned to clothes | fastened with a pin | pin, pinned | brooch
time | something that tells the time | a timekeeper | time, clock, timekeeper | watch smartphone
vehicle | a vehicle | a conveyance | vehicle, vehicles, conveyance | @vehicles
wheels | something with wheels | a wheeled thing | wheel, wheels, wheeled | car truck motorcycle airplane train bus scooter lawn_mower
two_wheels | something with two wheels | a two-wheeler | two wheels, two wheeler, two wheeled | motorcycle scooter
flies | something that flies | able to fly | fly, flies, flying, air | airplane helicopter kite
floats | a vessel that goes on water | a watercraft | watercraft, vessel, goes on water, on water, sail, float | boat ship
engine | something with an engine | powered by an engine | engine, fuel, gasoline, powered by an engine | car truck motorcycle airplane train bus helicopter ship lawn_mower
rails | something that runs on rails | a thing on rails | rail, rails, tracks, railway | train
many_people | made to carry many people | a mass carrier of people | many people, crowd, mass carrier | airplane train bus ship
cargo | used to carry heavy goods | a carrier of cargo | cargo, goods, freight | truck train ship
electric | something that uses electricity | electrical | electric, electricity, electronic, electronics, electrical, plug, power | @electronics drill printer calculator battery
screen | something with a screen | a thing with a display | screen, display | computer smartphone television monitor camera calculator
programs | something that runs programs | able to run software | program, programs, software, apps, internet | computer smartphone
peripheral | used together with a computer | a computer accessory | with a computer, computer accessory, connected to a computer | monitor keyboard printer
photos | something that takes pictures | a thing for photographs | photo, photos, photograph, photographs, takes pictures, take pictures | camera smartphone
blades | something with spinning blades | a thing whose blades turn | blade, blades, spin, spinning | blender helicopter lawn_mower
kitchen | used in a kitchen | a kitchen item | kitchen | @kitchen microwave refrigerator blender
heats | used to cook or heat food | a thing for cooking | cook, cooking, heat, heats, heating | microwave pot pan
utensil | used to eat with | an eating utensil | utensil, utensils, eat with, cutlery, silverware | spoon fork knife chopsticks
liquid | made to hold liquid | a container for liquid | liquid, liquids, container | bowl cup pot watering_can blender
drink | something you drink from | a drinking vessel | drink, drinking, drink from | cup
prongs | something with prongs | a thing with tines | prongs, prong, tines | fork rake
sharp | sharp | pointed or sharp-edged | sharp, pointed, dangerous | knife scissors saw cactus
cuts | used for cutting | a cutting tool | cut, cuts, cutting | knife scissors saw lawn_mower
writes | used for writing or drawing | a writing tool | write, writes, writing, draw, drawing | pen pencil sharpie marker
bristles | something with bristles | a brush | bristles, brush | toothbrush paintbrush
teeth | used to clean the teeth | for dental care | teeth, tooth, dental | toothbrush toothpaste
tube | sold in a tube or a bottle | squeezed out of a tube | tube, bottle, sticky | toothpaste glue
dates | something that shows dates | a thing with dates in it | date, dates, days, months | diary calendar
wall | hung on a wall | a wall decoration | wall | painting calendar
lock | something that opens locks | an opener of locks | lock, locks, door | key
office | an office supply | stationery | office, stationery | @office
art | an art supply or a work of art | artistic | art, artist, artistic | @art
instrument | a musical instrument | something that plays music | instrument, music, musical, melody | @instruments
strings | something with strings | stringed | string, strings, stringed | piano guitar violin harp tennis_racket kite
blown | played by blowing | a wind instrument | blow, blowing, blown, wind instrument | saxophone flute trumpet clarinet trombone
reed | played with a reed | a reed instrument | reed | saxophone clarinet
brass | a brass instrument | a member of the brass family | brass | trumpet trombone
slide | played with a slide | a thing with a slide | slide, sliding | trombone
keys | something with keys to press | a thing with pressable keys | keys, buttons, keys to press | piano keyboard calculator saxophone flute clarinet
fingerboard | an instrument with a fingerboard | a thing with a fingerboard | fingerboard | guitar violin
bow | played with a bow | bowed | bow, bowed | violin
furniture | furniture | a piece of furniture | furniture | @furniture
sit | made for sitting on | a seat | sit, sitting, seat | chair couch
several_seats | a seat for several people | a seat for more than one | several people, more than one, seat for several people | couch
sleep | used for sleeping | bedding | sleep, sleeping, bedroom, bedding | bed mattress pillow
drawers | something with drawers | a thing with drawers | drawer, drawers | dresser nightstand desk
stores_clothes | used to store clothes | a clothes store | store clothes, storing clothes, clothes store | dresser
work_at | something you sit at to work | a workplace | workplace, work at, sit at to work | desk
shelves | something with shelves | shelved | shelf, shelves, shelved | bookcase refrigerator
toy | a toy | a plaything | toy, toys, plaything, children, kids | @toys
figure | shaped like a person or an animal | a figure of a person or animal | shaped like, figure, looks like a person | doll stuffed_animal sculpture
pieces | something in many pieces | a set of many pieces | pieces, many pieces | lego puzzle
sport | used in sports | sporting equipment | sport, sports, sporting, athletic | @sports
ball | a ball | a sports ball | ball, balls | basketball football baseball soccer_ball golf_ball tennis_ball volleyball
kicked | something players kick | a thing for kicking | kick, kicked, kicking | football soccer_ball
struck | struck with a club, bat or racket | a target of a bat or racket | struck, club, hit with, bat or racket | baseball golf_ball tennis_ball
hits | used for hitting things | a striking tool | hit, hits, hitting, striking | hammer baseball_bat tennis_racket
garden | used in a garden | a gardening item | garden, gardening, yard | @garden
dig | used for digging | a digging tool | dig, digging | shovel
tool | a workshop tool | hardware for repairs | tool, tools, workshop, hardware, repair, repairs | @tools
screws | used to drive screws | a screw turner | screw, screws | screwdriver drill
"""
"""One attribute per line: name | phrase | another phrase | keywords | the objects that have it.

``@x`` stands for a category, and ``-y`` removes an object again. Both phrases fit "Is it …?"; only held-out templates
use the second one.
"""

SUBSET = ("football", "dog", "banana", "truck", "pants", "computer", "piano", "chair", "pen", "scissors")
"""The ten objects of ArCHer's Twenty Questions subset (arXiv 2402.19446)."""

SUBSET_ATTRIBUTES = (
    "light", "natural", "heavy", "pair", "office", "animal", "food", "sport", "electric", "instrument", "furniture",
    "clothing",
)  # fmt: skip
"""A small set of attributes that separates the ten objects, for models with a vocabulary of a hundred words."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A yes/no property.

    Args:
        name: unique name.
        phrase: completes "Is it …?".
        synonym: another phrase that does; only held-out templates use it.
        keywords: words and phrases that identify a free question.
        objects: names of the objects that have the property.
    """

    name: str
    phrase: str
    synonym: str
    keywords: tuple[str, ...]
    objects: frozenset[str]


@lru_cache(maxsize=1)
def objects() -> tuple[str, ...]:
    """Return all objects, in order."""
    return tuple(name for names in CATEGORIES.values() for name in _split(names))


@lru_cache(maxsize=1)
def attributes() -> dict[str, Attribute]:
    """Return all attributes by name."""
    return {attribute.name: attribute for attribute in map(_attribute, TABLE.strip().splitlines())}


@lru_cache(maxsize=1)
def masks() -> dict[str, int]:
    """Return, for each attribute, its objects as bits: bit n is ``objects()[n]``."""
    return {name: mask(attribute.objects) for name, attribute in attributes().items()}


def mask(some: Iterable[str]) -> int:
    """Return a set of objects as bits."""
    return sum(1 << _index()[name] for name in some)


@lru_cache(maxsize=1)
def names() -> dict[str, str]:
    """Return every name and variant of an object, mapped to the object."""
    known = {name: name for name in objects()}
    for name, variants in VARIANTS.items():
        known |= dict.fromkeys(_split(variants), name)
    return known


@lru_cache(maxsize=1)
def _index() -> dict[str, int]:
    return {name: number for number, name in enumerate(objects())}


def _attribute(line: str) -> Attribute:
    name, phrase, synonym, keywords, members = (part.strip() for part in line.split("|"))
    found: set[str] = set()
    for word in members.split():
        item = word.lstrip("-@").replace("_", " ")
        if word.startswith("@"):
            found.update(_split(CATEGORIES[item]))
        elif word.startswith("-"):
            found.remove(item)
        elif item not in objects():
            raise ValueError(f"attribute {name!r} names the unknown object {item!r}")
        else:
            found.add(item)
    return Attribute(name, phrase, synonym, _split(keywords), frozenset(found))


def _split(text: str) -> tuple[str, ...]:
    return tuple(re.split(r",\s*", text))
