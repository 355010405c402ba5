"""How often Python looks for garbage in cycles, and in what: it holds the reactor meanwhile."""

import gc

#: Collections of middle-aged objects between two of all that came since the start, which is one for
#: 430,000 objects that were made and not freed. It looks at some 35 objects a stream: with two
#: thousand streams it would hold the reactor for 30 ms, and by Python's own measure it would come
#: whenever they are a quarter more. It finds next to nothing, since what ends is freed as it ends;
#: what waits for it in cycles all the same is some 40 MB at the most.
FULL_COLLECTION_AFTER = 50


def set_apart(collect: bool = True) -> None:
    """Let the collector leave alone what is there now: modules, functions, the config, the books.

    It lasts as long as the process, and to look through it again at each full collection would hold
    the reactor: for 10 to 30 ms with the 50,000 objects of a start, for 90 ms with the sums of
    10,000 keys. Full collections become rare, too; see :data:`FULL_COLLECTION_AFTER`.

    :param collect: look for garbage once more before, which takes as long as that.
    """
    if collect:
        gc.collect()
    gc.freeze()
    newest, young, _ = gc.get_threshold()
    gc.set_threshold(newest, young, FULL_COLLECTION_AFTER)


def take_back() -> None:
    """Let the collector look again at what was set apart, since some of it is in use no more."""
    gc.unfreeze()
