"""What users of ``lru_cache`` rely on."""

from __future__ import annotations

from .lru_cache import LRUCache


def filled(capacity: int = 3, lifetime: int = 0) -> LRUCache:
    """A cache with a, b and c in it."""
    cache = LRUCache(capacity, lifetime)
    for number, key in enumerate("abc"):
        cache.put(key, number)
    return cache


def values_are_found_again() -> object:
    cache = filled()
    return [cache.get(key) for key in "abcd"]


def what_is_not_there_has_a_default() -> object:
    cache = filled()
    return cache.get("x"), cache.get("x", 7), cache.get("a", 7)


def the_least_recently_used_is_forgotten() -> object:
    cache = filled()
    cache.get("a")
    forgotten = cache.put("d", 3)
    return forgotten, list(cache)


def a_full_cache_stays_full() -> object:
    cache = filled(capacity=2)
    return len(cache), list(cache), cache.put("z", 0), len(cache)


def there_is_room_until_it_is_full() -> object:
    cache = LRUCache(2)
    return cache.put(1, "one"), cache.put(2, "two"), cache.put(3, "three")


def replacing_a_value_forgets_nothing() -> object:
    cache = filled()
    forgotten = cache.put("a", 10)
    return forgotten, cache.get("a"), list(cache)


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


def no_lookups_no_hits() -> object:
    return LRUCache(4).hit_rate()


def what_is_missing_is_made_once() -> object:
    cache, made = LRUCache(2), [1, 2, 3]
    for _ in range(3):
        cache.get_or_make("k", made.pop)
    return made, cache.get("k"), cache.hits, cache.misses


def old_values_are_forgotten() -> object:
    cache = filled(lifetime=3)
    first = cache.tick(2)
    cache.put("d", 3)
    second = cache.tick()
    return first, second, list(cache), cache.now


def a_use_does_not_make_young() -> object:
    cache = filled(lifetime=2)
    cache.tick()
    cache.get("a")
    return cache.tick(), len(cache)


def without_a_lifetime_nothing_ages() -> object:
    cache = filled()
    return cache.tick(1000), len(cache)


def shrinking_forgets_the_oldest() -> object:
    cache = filled()
    dropped = cache.resize(2)
    return dropped, list(cache), cache.put("d", 1), len(cache)


def growing_forgets_nothing() -> object:
    cache = filled()
    return cache.resize(5), cache.put("d", 3), len(cache)


def shrinking_to_nothing_is_refused() -> object:
    cache = filled()
    try:
        cache.resize(0)
    except ValueError as error:
        return str(error), len(cache), cache.resize(1)
    return None
