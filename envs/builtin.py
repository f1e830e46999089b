"""The ids that come with Turnwise. Classes are imported on first use."""

from __future__ import annotations

from typing import Any

from ..tasks.miniwob.suite import TASKS, id_of
from .registry import register

GAMES = "turnwise.envs.games"
CODE = "turnwise.envs.code"
APPS = "turnwise.envs.apps"
WEB = "turnwise.envs.web"
SEARCH = "turnwise.envs.search"
BFCL = "turnwise.envs.bfcl"
MINIWOB = "turnwise.envs.miniwob"

IDS: tuple[tuple[str, str, dict[str, Any], str | None], ...] = (
    # Maze: procedural, then LMRL-Gym's fixed layouts.
    ("turnwise/Maze-v0", f"{GAMES}.maze:MazeEnv", {}, None),
    ("turnwise/MazeBlind-v0", f"{GAMES}.maze:MazeBlindEnv", {}, None),
    ("turnwise/MazeFO-v0", f"{GAMES}.maze:MazeFO", {}, None),
    ("turnwise/MazePO-v0", f"{GAMES}.maze:MazePO", {}, None),
    ("turnwise/MazeU-v0", f"{GAMES}.maze:MazeU", {}, None),
    ("turnwise/MazeMedium-v0", f"{GAMES}.maze:MazeMedium", {}, None),
    ("turnwise/MazeLarge-v0", f"{GAMES}.maze:MazeLarge", {}, None),
    ("turnwise/TextNav-v0", f"{GAMES}.text_nav:TextNavEnv", {}, None),
    ("turnwise/TextNavFO-v0", f"{GAMES}.text_nav:TextNavFO", {}, None),
    ("turnwise/TextNavPO-v0", f"{GAMES}.text_nav:TextNavPO", {}, None),
    ("turnwise/Wordle-v1", f"{GAMES}.wordle:WordleEnv", {}, None),
    # Twenty Questions: levelled, then LMRL-Gym's 158 objects and ArCHer's ten.
    ("turnwise/TwentyQuestionsLevels-v1", f"{GAMES}.twenty_questions:TwentyQuestionsEnv", {}, None),
    ("turnwise/TwentyQuestions-v1", f"{GAMES}.twenty_questions:TwentyQuestionsFull", {}, None),
    ("turnwise/TwentyQuestionsSubset-v1", f"{GAMES}.twenty_questions:TwentyQuestionsSubset", {}, None),
    # Guess My City: levelled and invented, LMRL-Gym's hundred cities, and those without the leak guard.
    ("turnwise/GuessMyCityLevels-v1", f"{GAMES}.guess_my_city:GuessMyCityEnv", {}, None),
    ("turnwise/GuessMyCity-v1", f"{GAMES}.guess_my_city:GuessMyCityReal", {}, None),
    ("turnwise/GuessMyCityLeaky-v1", f"{GAMES}.guess_my_city:GuessMyCityLeaky", {}, None),
    # Chess endgames: king and one piece against king and the best defense.
    ("turnwise/ChessEndgames-v1", f"{GAMES}.chess_endgames:ChessEndgamesEnv", {}, "chess"),
    # Chess: built-in opponents of five strengths, and Stockfish where it is installed.
    ("turnwise/Chess-v1", f"{GAMES}.chess_game:ChessEnv", {}, "chess"),
    ("turnwise/ChessStockfish-v1", f"{GAMES}.chess_stockfish:ChessStockfishEnv", {}, "chess"),
    # Car Dealer: rule-based buyers.
    ("turnwise/CarDealer-v2", f"{GAMES}.car_dealer:CarDealerEnv", {}, None),
    # Code, in sandboxes: functions and classes to write, by what they are worth on hidden inputs.
    ("turnwise/CodeSynthesis-v1", f"{CODE}.synthesis:CodeSynthesisEnv", {}, None),
    # Broken modules, and functions that are correct and slow.
    ("turnwise/CodeRepair-v3", f"{CODE}.repair:CodeRepairEnv", {}, None),
    ("turnwise/CodeEfficiency-v3", f"{CODE}.efficiency:CodeEfficiencyEnv", {}, None),
    # Files to change, judged by the state of all of them.
    ("turnwise/CodeShell-v2", f"{CODE}.shell:CodeShellEnv", {}, None),
    # Databases to ask and to change, judged by rows.
    ("turnwise/CodeSQL-v2", f"{CODE}.sql:CodeSqlEnv", {}, None),
    # A user's apps in one database, judged by its rows.
    ("turnwise/Apps-v2", f"{APPS}.env:AppsEnv", {}, None),
    # Web sites: read without a browser, and in Chromium.
    ("turnwise/WebHTML-v1", f"{WEB}.env:WebEnv", {"browser": "html"}, None),
    ("turnwise/Web-v1", f"{WEB}.env:WebEnv", {"browser": "chromium"}, "web"),
    # Questions over corpora: by tools, and by Search-R1's tags.
    ("turnwise/Search-v1", f"{SEARCH}.env:SearchEnv", {"actions": "tools"}, None),
    ("turnwise/SearchTags-v1", f"{SEARCH}.env:SearchEnv", {"actions": "tags"}, None),
    # Their pages at hand; and the other way round, the answer given and a question wanted.
    ("turnwise/SearchDocuments-v1", f"{SEARCH}.documents:SearchDocumentsEnv", {}, None),
    ("turnwise/SearchPropose-v1", f"{SEARCH}.proposing:SearchProposeEnv", {}, None),
    # Other people's suites: BFCL's multi-turn tasks, with its own verdict.
    ("turnwise/BFCLMultiTurnBase-v0", f"{BFCL}.env:BfclMultiTurnBase", {}, "bfcl"),
    ("turnwise/BFCLMultiTurnMissFunc-v0", f"{BFCL}.env:BfclMultiTurnMissFunc", {}, "bfcl"),
    ("turnwise/BFCLMultiTurnMissParam-v0", f"{BFCL}.env:BfclMultiTurnMissParam", {}, "bfcl"),
    ("turnwise/BFCLMultiTurnLongContext-v0", f"{BFCL}.env:BfclMultiTurnLongContext", {}, "bfcl"),
    # MiniWoB++: 128 small pages in Chromium, each of which judges itself.
    *((id_of(page), f"{MINIWOB}.env:MiniwobEnv", {"page": page}, "miniwob") for page in TASKS),
)
"""(id, ``module:Class``, constructor arguments, optional extra)."""


def register_builtin() -> None:
    """Register every id of this package; called once by the front door."""
    for id, entry_point, kwargs, extra in IDS:
        register(id, entry_point, kwargs=kwargs, source="turnwise", extra=extra)
