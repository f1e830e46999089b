"""A prefix tree of words with counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class Node:
    """A node of the tree; ``count`` is the number of occurrences of the word that ends here."""

    __slots__ = ("children", "count")

    def __init__(self) -> None:
        self.children: dict[str, Node] = {}
        self.count = 0


class Trie:
    """A multiset of words that can be searched by prefix."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._root = Node()
        self._size = 0
        for word in words:
            self.add(word)

    def __len__(self) -> int:
        """Return the number of different words."""
        return self._size

    def __contains__(self, word: str) -> bool:
        return self.count(word) > 0

    def add(self, word: str, times: int = 1) -> int:
        """Add a word, and return its count."""
        node = self._root
        for character in word:
            node = node.children.setdefault(character, Node())
        if node.count == 0:
            self._size += 1
        node.count += times
        return node.count

    def count(self, word: str) -> int:
        """Return the count of a word; 0 if it is missing."""
        node = self._find(word)
        return node.count if node else 0

    def remove(self, word: str) -> bool:
        """Remove all occurrences of a word, and return whether there was one."""
        path = [self._root]
        for character in word:
            if character not in path[-1].children:
                return False
            path.append(path[-1].children[character])
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
        """Return the words with a prefix in alphabetical order; at most ``limit`` unless it is 0."""
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
        """Return the longest word that the text begins with, or an empty string."""
        node, best = self._root, ""
        for index, character in enumerate(text):
            if character not in node.children:
                break
            node = node.children[character]
            if node.count:
                best = text[: index + 1]
        return best

    def matching(self, pattern: str) -> list[str]:
        """Return the words that match a pattern, in which ``?`` stands for any character."""
        alive = [("", self._root)]
        for character in pattern:
            alive = [
                (word + each, node.children[each])
                for word, node in alive
                for each in sorted(node.children)
                if character in ("?", each)
            ]
        return [word for word, node in alive if node.count]

    def most_common(self, prefix: str = "") -> str | None:
        """Return the word with the largest count among those with a prefix; of equal counts, the first word."""
        words = self.with_prefix(prefix)
        return min(words, key=lambda word: (-self.count(word), word)) if words else None

    def nodes(self) -> int:
        """Return the number of nodes, including the root."""
        waiting, counted = [self._root], 0
        while waiting:
            counted += 1
            waiting.extend(waiting.pop().children.values())
        return counted

    def _find(self, prefix: str) -> Node | None:
        node = self._root
        for character in prefix:
            if character not in node.children:
                return None
            node = node.children[character]
        return node

    def _below(self, node: Node, word: str) -> Iterator[str]:
        if node.count:
            yield word
        for character in sorted(node.children):
            yield from self._below(node.children[character], word + character)
