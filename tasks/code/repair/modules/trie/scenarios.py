"""The behavior that users of ``trie`` rely on."""

from __future__ import annotations

from .trie import Trie

WORDS = ("car", "card", "care", "cat", "do", "dog", "car")


def different_words_are_counted_once() -> object:
    return len(Trie(WORDS)), len(Trie())


def words_are_found_and_prefixes_are_not() -> object:
    trie = Trie(WORDS)
    return [word in trie for word in ("car", "ca", "cards", "do", "d", "", "cow")]


def counts_of_words() -> object:
    trie = Trie(WORDS)
    return trie.count("car"), trie.count("cat"), trie.count("ca"), trie.count("zebra")


def adding_returns_the_count() -> object:
    trie = Trie()
    return trie.add("a"), trie.add("a", 4), trie.add("b"), len(trie), trie.count("a")


def the_empty_word_is_a_word() -> object:
    trie = Trie([""])
    return len(trie), "" in trie, trie.with_prefix(""), trie.longest_prefix("x")


def removing_returns_whether_there_was_a_word() -> object:
    trie = Trie(WORDS)
    return trie.remove("car"), trie.remove("car"), trie.remove("ca"), trie.remove("cars"), len(trie)


def removing_a_word_keeps_longer_ones() -> object:
    trie = Trie(WORDS)
    trie.remove("car")
    return trie.with_prefix("car"), "car" in trie


def removing_a_word_keeps_shorter_ones() -> object:
    trie = Trie(WORDS)
    trie.remove("dog")
    return trie.with_prefix("d"), trie.nodes()


def removing_cleans_the_tree() -> object:
    trie = Trie(["abc", "abd", "x"])
    before = trie.nodes()
    trie.remove("abc")
    between = trie.nodes()
    trie.remove("abd")
    return before, between, trie.nodes()


def removing_everything_leaves_the_root() -> object:
    trie = Trie(["one"])
    trie.remove("one")
    return trie.nodes(), len(trie), trie.with_prefix("")


def words_with_a_prefix() -> object:
    trie = Trie(WORDS)
    return trie.with_prefix("car"), trie.with_prefix("d"), trie.with_prefix("x"), trie.with_prefix("cards")


def a_limited_number_of_words_with_a_prefix() -> object:
    trie = Trie(WORDS)
    return trie.with_prefix("", 3), trie.with_prefix("c", 1), trie.with_prefix("c", 0)


def the_longest_word_at_the_beginning_of_a_text() -> object:
    trie = Trie(WORDS)
    return [trie.longest_prefix(text) for text in ("cards", "careless", "ca", "dogma", "x", "")]


def words_that_match_a_pattern() -> object:
    trie = Trie(WORDS)
    return trie.matching("ca?"), trie.matching("???"), trie.matching("?o"), trie.matching("car?"), trie.matching("")


def matching_words_are_sorted() -> object:
    return Trie(["zb", "ab", "mb", "mc"]).matching("?b")


def the_most_common_word() -> object:
    trie = Trie(WORDS)
    return trie.most_common(), trie.most_common("d"), trie.most_common("x"), trie.most_common("care")


def of_equally_common_words_the_first_counts() -> object:
    return Trie(["b", "a", "c", "c", "b"]).most_common()


def the_number_of_nodes() -> object:
    return Trie(WORDS).nodes(), Trie().nodes(), Trie(["a", "b"]).nodes()
