"""The company that the wiki is about: what its pages are called, and what is written on them."""

from __future__ import annotations

from collections.abc import Mapping

SECTIONS = ("handbook", "products", "how-tos", "people", "teams", "offices")
"""What pages are sorted into."""
TEAMS = ("Logistics", "Support", "Design", "Purchasing", "Quality", "Training", "Field Service", "Research")
GOODS = ("pump", "valve", "meter", "sensor", "heater", "filter")
ROLES = ("engineer", "buyer", "planner", "technician", "trainer", "clerk", "analyst", "designer")
HANDBOOK = (
    "Travel expenses",
    "Sick leave",
    "Remote work",
    "Parental leave",
    "Company cars",
    "Visitors",
    "Training days",
    "Gifts",
    "Data protection",
    "Fire safety",
)
HOW_TOS = (
    "Book a meeting room",
    "Order a laptop",
    "Report a fault",
    "Request a badge",
    "Ship a sample",
    "Close a ticket",
    "Return a rental car",
    "Plan an inventory",
    "Print large posters",
    "Set up a phone",
    "Reset a password",
    "Invite a guest",
)
HEADS: Mapping[str, tuple[str, ...]] = {
    "handbook": ("Rule", "Exceptions"),
    "products": ("Use", "Known problems"),
    "how-tos": ("Before you begin", "Steps"),
    "people": ("About",),
    "teams": ("What we do",),
    "offices": ("Getting there", "Opening hours"),
}
"""Heads of the parts of pages, by section."""
SENTENCES: Mapping[str, tuple[str, ...]] = {
    "Rule": (
        "Ask your lead before you begin.",
        "Keep all receipts for a year.",
        "Fill in the form within two weeks.",
        "This holds for everybody, also for interns.",
        "What is not written here is decided case by case.",
    ),
    "Exceptions": (
        "Field service has rules of its own.",
        "In urgent cases a phone call is enough.",
        "Abroad the limits are twice as high.",
        "Contractors ask their own company.",
    ),
    "Use": (
        "Made for indoor use only.",
        "Can be cleaned with warm water.",
        "Runs for a day without power.",
        "Customers often combine it with a filter.",
        "The small model is no longer made.",
    ),
    "Known problems": (
        "The display is hard to read in the sun.",
        "The first series came with a short cable.",
        "It hums in the first hour.",
        "The lid may stick when it is cold.",
    ),
    "Before you begin": (
        "You need your badge.",
        "Have the cost centre at hand.",
        "Ask whether somebody else has begun already.",
        "Mornings are quieter.",
    ),
    "Steps": (
        "Open the form and fill in every field.",
        "Send it to the contact named above.",
        "Wait for the answer, which takes a day.",
        "Put the paper copy into the blue folder.",
        "Tell your team when it is done.",
    ),
    "About": (
        "Likes to be called rather than written to.",
        "Is in the office from Tuesday to Thursday.",
        "Speaks three languages.",
        "Helps with everything that has a plug.",
        "Has been in two other teams before.",
    ),
    "What we do": (
        "We answer within a day.",
        "We meet every second Wednesday.",
        "Bring us a drawing, not a story.",
        "Our board hangs beside the kitchen.",
        "We keep the shared calendar.",
    ),
    "Getting there": (
        "The bus stops in front of the door.",
        "Parking is behind the building.",
        "Ring twice, the bell is weak.",
        "The lift does not go to the top floor.",
    ),
    "Opening hours": (
        "Open from 8 to 18 on working days.",
        "On Fridays the reception closes at 15.",
        "In August it is closed for a week.",
        "The side door opens with a badge at any time.",
    ),
}
"""What may stand in a part, by its head."""
NOTES = ("typo", "made clearer", "brought up to date", "as agreed in the meeting", "shorter", "after a question")
TALK = (
    "Is this still right?",
    "Thank you, this helped me.",
    "The second sentence is unclear to me.",
    "Could somebody add a picture?",
    "I have asked the team, it is as written.",
    "The old version was better.",
    "Who keeps this page up to date?",
)
