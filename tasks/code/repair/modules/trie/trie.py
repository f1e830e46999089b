"""Words in a tree by their letters, each with a count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class Node:
    """A letter's place in the tree; ``count`` is how often a word ends here."""

    __slots__ = ("children", "count")

    def __init__(self) -> None:
        self.children: dict[str, Node] = {}
        self.count = 0


class Trie:
    """A bag of words that knows their beginnings."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._root = Node()
        self._size = 0
        for word in words:
            self.add(word)

    def __len__(self) -> int:
        """How many different words there are."""
        return self._size

    def __contains__(self, word: str) -> bool:
        return self.count(word) > 0

    def add(self, word: str, times: int = 1) -> int:
        """Put a word in; how often it is there now."""
        node = self._root
        for letter in word:
            node = node.children.setdefault(letter, Node())
        if node.count == 0:
            self._size += 1
        node.count += times
        return node.count

    def count(self, word: str) -> int:
        """How often a word is there."""
        node = self._find(word)
        return node.count if node else 0

    def remove(self, word: str) -> bool:
        """Take a word out, however often it is there; whether it was."""
        path = [self._root]
        for letter in word:
            if letter not in path[-1].children:
                return False
            path.append(path[-1].children[letter])
        if path[-1].count == 0:
            return False
        path[-1].count = 0
        self._size -= 1
        for depth in range(len(word), 0, -1):
            if path[depth].count or path[depth].children:
                break
            del path[depth - 1].children[word[depth - 1]]
        return True

    def with_prefix(self, prefix: str, limit: int = 0) -> list[str]:
        """Words that begin so, by name; at most ``limit`` if it is not 0."""
        node = self._find(prefix)
        if node is None:
            return []
        found = []
        for word in self._below(node, prefix):
            found.append(word)
            if len(found) == limit:
                break
        return found

    def longest_prefix(self, text: str) -> str:
        """The longest word that the text begins with; empty if there is none."""
        node, best = self._root, ""
        for index, letter in enumerate(text):
            if letter not in node.children:
                break
            node = node.children[letter]
            if node.count:
                best = text[: index + 1]
        return best

    def matching(self, pattern: str) -> list[str]:
        """Words of a pattern in which ``?`` stands for any letter."""
        alive = [("", self._root)]
        for letter in pattern:
            alive = [
                (word + each, node.children[each])
                for word, node in alive
                for each in sorted(node.children)
                if letter in ("?", each)
            ]
        return [word for word, node in alive if node.count]

    def most_common(self, prefix: str = "") -> str | None:
        """The word that is there most often, of those that begin so; of equal ones the first by name."""
        words = self.with_prefix(prefix)
        return min(words, key=lambda word: (-self.count(word), word)) if words else None

    def nodes(self) -> int:
        """Places in the tree, its root included."""
        waiting, counted = [self._root], 0
        while waiting:
            counted += 1
            waiting.extend(waiting.pop().children.values())
        return counted

    def _find(self, prefix: str) -> Node | None:
        node = self._root
        for letter in prefix:
            if letter not in node.children:
                return None
            node = node.children[letter]
        return node

    def _below(self, node: Node, word: str) -> Iterator[str]:
        if node.count:
            yield word
        for letter in sorted(node.children):
            yield from self._below(node.children[letter], word + letter)
