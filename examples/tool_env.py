"""The smallest tool environment: typed methods are tools, and the score depends on the world, not on the text."""

from typing import Literal, get_args

import turnwise as tw

Shop = Literal["Adler", "Blum", "Cole"]


class Bookshops(tw.ToolEnv):
    """Find out what three shops ask for a book, and buy it at the lowest price."""

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.prices = dict(zip(get_args(Shop), rng.sample(range(5, 100), 3), strict=True))
        self.lowest, self.asked, self.bought = min(self.prices.values()), set(), None
        return f"Buy the book at the lowest price that a shop asks. There are {', '.join(self.prices)}."

    @tw.tool
    def price(self, shop: Shop) -> int:
        """Ask a shop for its price."""
        self.asked.add(shop)
        return self.prices[shop]

    @tw.tool(ends=True)
    def buy(self, price: int) -> None:
        """Buy the book at this price; the episode ends."""
        self.bought = price

    def judge(self) -> tw.Score:
        return tw.Score(success=self.bought == self.lowest)

    def oracle(self) -> tw.ToolCall:
        shops = [shop for shop in self.prices if shop not in self.asked]
        return tw.ToolCall("price", {"shop": shops[0]}) if shops else tw.ToolCall("buy", {"price": self.lowest})


tw.register("demo/Bookshops-v0", Bookshops)
