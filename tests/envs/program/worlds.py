"""A small world of tools, acted in by calls or by programs."""

from __future__ import annotations

from typing import Any, Literal

import turnwise as tw
from turnwise.envs.program.env import ProgramEnv

Shop = Literal["Adler", "Blum", "Cole"]


class BookshopTools(tw.ToolEnv):
    """Find out what three shops ask for a book, and buy it at the lowest price."""

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.prices = dict(zip(("Adler", "Blum", "Cole"), rng.sample(range(5, 100), 3), strict=True))
        self.lowest, self.asked, self.bought = min(self.prices.values()), list[str](), list[int]()
        return f"Buy the book at the lowest price that a shop asks. There are {', '.join(self.prices)}."

    @tw.tool
    def shop_price(self, shop: Shop, copies: int = 1) -> dict[str, Any]:
        """Ask a shop for its price.

        Args:
            shop: name of the shop to ask.
            copies: how many books.
        """
        self.asked.append(shop)
        return {"shop": shop, "price": self.prices[shop] * copies}

    @tw.tool
    async def shop_names(self) -> list[str]:
        """List the shops."""
        return list(self.prices)

    @tw.tool
    def note(self, text: str, lines: list[str] | None = None) -> str:
        """Note something."""
        if text == "broken":
            raise ConnectionError("the tool server failed")
        if text == "odd":
            raise KeyError("odd")
        if text == "refused":
            raise tw.ToolError("no such note; write another")
        return text * (10**6 if text == "large" else 1)

    @tw.tool(ends=True)
    def shop_buy(self, price: int) -> None:
        """Buy the book at this price; the episode ends."""
        self.bought.append(price)

    def judge(self) -> tw.Score:
        return tw.Score(success=self.bought == [self.lowest])

    def oracle(self) -> tw.ToolCall:
        shops = [shop for shop in self.prices if shop not in self.asked]
        if shops:
            return tw.ToolCall("shop_price", {"shop": shops[0]})
        return tw.ToolCall("shop_buy", {"price": self.lowest})

    def near_misses(self) -> dict[str, Any]:
        return {
            "buys dear": [tw.ToolCall("shop_buy", {"price": max(self.prices.values())})],
            "buys one dearer": lambda env: tw.ToolCall("shop_buy", {"price": env.lowest + 1}),
        }

    def state_key(self) -> str:
        return repr((self.prices, sorted(self.asked), self.bought))


class Bookshops(ProgramEnv, BookshopTools):
    """The same, with a choice of the way to act."""

    groups = ("shop",)


class BookshopPrograms(Bookshops):
    """The same, acted in by programs."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"actions": "python", **kwargs})
