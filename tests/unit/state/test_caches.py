"""Derived values live as long as their owner, and forks have their own."""

from threading import Barrier, Thread
from weakref import ref

from reconciler.state.caches import Cache, Caches, share


class Owner:
    """An owner of derived values."""

    def __init__(self, caches: Caches | None = None) -> None:
        self.caches = caches or Caches()

    def fork(self) -> "Owner":
        return Owner(self.caches.fork())


class Value:
    """A value that supports weak references."""


def test_a_value_is_derived_once_for_each_owner():
    derived: list[Owner] = []

    def derive(owner: Owner) -> None:
        """None is a value too."""
        derived.append(owner)

    cache = Cache(derive)
    one, other = Owner(), Owner()
    for owner in (one, other, one, other):
        assert cache.of(owner) is None
    assert derived == [one, other]


def test_caches_of_the_same_owner_are_separate():
    words: Cache[Owner, str] = Cache(lambda _: "word")
    numbers: Cache[Owner, int] = Cache(lambda _: 1)
    owner = Owner()
    assert (words.of(owner), numbers.of(owner), words.of(owner)) == ("word", 1, "word")


def test_each_cache_says_what_a_fork_starts_with():
    fixed: Cache[Owner, Value] = Cache(lambda _: Value(), on_fork=share)
    known: Cache[Owner, dict[str, int]] = Cache(lambda _: {}, on_fork=dict.copy)
    followed: Cache[Owner, dict[str, int]] = Cache(lambda _: {})
    owner = Owner()
    value = fixed.of(owner)
    known.of(owner)["a"] = followed.of(owner)["a"] = 1
    fork = owner.fork()
    assert fixed.of(fork) is value
    assert (known.of(fork), followed.of(fork)) == ({"a": 1}, {})


def test_two_forks_and_their_origin_do_not_see_what_the_others_add():
    known: Cache[Owner, dict[str, int]] = Cache(lambda _: {}, on_fork=dict.copy)
    late: Cache[Owner, Value] = Cache(lambda _: Value(), on_fork=share)
    owner = Owner()
    known.of(owner)["before"] = 0
    one, other = owner.fork(), owner.fork()
    known.of(one)["one"], known.of(other)["other"], known.of(owner)["owner"] = 1, 2, 3
    assert known.of(one) == {"before": 0, "one": 1}
    assert known.of(other) == {"before": 0, "other": 2}
    assert known.of(owner) == {"before": 0, "owner": 3}
    assert len({late.of(one), late.of(other), late.of(owner)}) == 3


def test_values_are_freed_with_their_owner():
    """Without the garbage collector: a controller freezes its objects, and the collector skips them."""
    cache: Cache[Owner, Value] = Cache(lambda _: Value())
    owner = Owner()
    value = ref(cache.of(owner))
    assert value() is not None
    del owner
    assert value() is None


def test_threads_that_derive_a_value_at_once_get_the_same():
    both = Barrier(2, timeout=60)

    def derive(_: Owner) -> Value:
        both.wait()  # neither has stored its value
        return Value()

    cache, owner, found = Cache(derive), Owner(), list[Value]()
    threads = [Thread(target=lambda: found.append(cache.of(owner))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert found[0] is found[1] is cache.of(owner)


def test_caches_can_be_forked_while_another_thread_adds_to_them():
    owner = Owner()

    def add(value: int) -> int:
        """As another thread would do at the worst moment."""
        another.append(Cache(lambda _: 0))
        another[-1].of(owner)
        return value

    another: list[Cache[Owner, int]] = []
    cache: Cache[Owner, int] = Cache(lambda _: 1, on_fork=add)
    cache.of(owner)
    assert cache.of(owner.fork()) == 1
