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
    "how-tos": ("Before you start", "Steps"),
    "people": ("About",),
    "teams": ("What we do",),
    "offices": ("Getting there", "Opening hours"),
}
"""Heads of the parts of pages, by section."""
SENTENCES: Mapping[str, tuple[str, ...]] = {
    "Rule": (
        "Ask your lead before you start.",
        "Keep all receipts for a year.",
        "Fill in the form within two weeks.",
        "This applies to everyone, including interns.",
        "Anything not covered here is decided case by case.",
    ),
    "Exceptions": (
        "Field service has rules of its own.",
        "A phone call is enough in urgent cases.",
        "The limits are twice as high abroad.",
        "Contractors must ask their own company.",
    ),
    "Use": (
        "For indoor use only.",
        "Can be cleaned with warm water.",
        "Runs for a day without power.",
        "Customers often combine it with a filter.",
        "The small model is no longer made.",
    ),
    "Known problems": (
        "The display is hard to read in the sun.",
        "The first series came with a short cable.",
        "It hums for the first hour.",
        "The lid may stick when it is cold.",
    ),
    "Before you start": (
        "You need your badge.",
        "Have the cost center at hand.",
        "Ask if someone else has already started.",
        "Mornings are quieter.",
    ),
    "Steps": (
        "Open the form and fill in every field.",
        "Send it to the contact named above.",
        "Wait for the answer, which takes a day.",
        "Put the paper copy in the blue folder.",
        "Tell your team when you are done.",
    ),
    "About": (
        "Prefers phone calls to email.",
        "Is in the office from Tuesday to Thursday.",
        "Speaks three languages.",
        "Helps with anything that has a plug.",
        "Has been in two other teams before.",
    ),
    "What we do": (
        "We answer within a day.",
        "We meet every second Wednesday.",
        "Bring us a drawing, not a story.",
        "Our board hangs next to the kitchen.",
        "We keep the shared calendar.",
    ),
    "Getting there": (
        "The bus stops in front of the door.",
        "Parking is behind the building.",
        "Ring twice because the bell is weak.",
        "The elevator does not go to the top floor.",
    ),
    "Opening hours": (
        "Open from 8:00 to 18:00 on weekdays.",
        "The front desk closes at 15:00 on Fridays.",
        "It is closed for a week in August.",
        "The side door opens with a badge at any time.",
    ),
}
"""What may stand in a part, by its head."""
NOTES = ("typo", "made clearer", "updated", "as agreed in the meeting", "shorter", "after a question")
TALK = (
    "Is this still correct?",
    "Thank you, this helped me.",
    "The second sentence is unclear to me.",
    "Could someone add a photo?",
    "I asked the team; it is correct as written.",
    "The old version was better.",
    "Who keeps this page up to date?",
)
