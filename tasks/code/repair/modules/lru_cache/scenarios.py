"""The behavior that users of ``lru_cache`` rely on."""

from __future__ import annotations

from .lru_cache import LRUCache


def filled(capacity: int = 3, lifetime: int = 0) -> LRUCache:
    """Return a cache with the keys a, b and c."""
    cache = LRUCache(capacity, lifetime)
    for number, key in enumerate("abc"):
        cache.put(key, number)
    return cache


def stored_values_are_found() -> object:
    cache = filled()
    return [cache.get(key) for key in "abcd"]


def missing_keys_have_a_default() -> object:
    cache = filled()
    return cache.get("x"), cache.get("x", 7), cache.get("a", 7)


def the_least_recently_used_value_is_evicted() -> object:
    cache = filled()
    cache.get("a")
    evicted = cache.put("d", 3)
    return evicted, list(cache)


def a_full_cache_stays_full() -> object:
    cache = filled(capacity=2)
    return len(cache), list(cache), cache.put("z", 0), len(cache)


def nothing_is_evicted_until_the_cache_is_full() -> object:
    cache = LRUCache(2)
    return cache.put(1, "one"), cache.put(2, "two"), cache.put(3, "three")


def replacing_a_value_evicts_nothing() -> object:
    cache = filled()
    evicted = cache.put("a", 10)
    return evicted, cache.get("a"), list(cache)


def membership_tests_do_not_count_as_use() -> object:
    cache = filled()
    there = "a" in cache, "x" in cache
    return there, list(cache), cache.hits, cache.misses


def a_capacity_of_zero_is_refused() -> object:
    try:
        return len(LRUCache(0))
    except ValueError as error:
        return str(error)


def a_cache_of_one() -> object:
    cache = LRUCache(1)
    return cache.put("a", 1), cache.put("b", 2), cache.get("a"), cache.get("b")


def hits_are_counted() -> object:
    cache = filled()
    for key in "aabx":
        cache.get(key)
    return cache.hits, cache.misses, cache.hit_rate()


def the_hit_rate_before_the_first_lookup() -> object:
    return LRUCache(4).hit_rate()


def missing_values_are_made_once() -> object:
    cache, made = LRUCache(2), [1, 2, 3]
    for _ in range(3):
        cache.get_or_make("k", made.pop)
    return made, cache.get("k"), cache.hits, cache.misses


def old_values_are_evicted() -> object:
    cache = filled(lifetime=3)
    first = cache.tick(2)
    cache.put("d", 3)
    second = cache.tick()
    return first, second, list(cache), cache.now


def a_use_does_not_reset_the_age() -> object:
    cache = filled(lifetime=2)
    cache.tick()
    cache.get("a")
    return cache.tick(), len(cache)


def without_a_lifetime_nothing_ages() -> object:
    cache = filled()
    return cache.tick(1000), len(cache)


def shrinking_evicts_the_least_recently_used_value() -> object:
    cache = filled()
    dropped = cache.resize(2)
    return dropped, list(cache), cache.put("d", 1), len(cache)


def growing_evicts_nothing() -> object:
    cache = filled()
    return cache.resize(5), cache.put("d", 3), len(cache)


def shrinking_to_zero_is_refused() -> object:
    cache = filled()
    try:
        cache.resize(0)
    except ValueError as error:
        return str(error), len(cache), cache.resize(1)
    return None
