"""Which devices may be held side by side. A scope is what they have to have in common for that to matter.

Two kinds of rule, both over sets of names as bits. *Common*: one name must be shared by all that are held
in a scope. *Marks*: a device asks for some marks, and every other device in the scope must meet them.
"""

import numpy as np

from kernels.types import Amounts, Bits, Codes, Mask

ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""Every name there is or will be"""


def shared_by_all(size: int, scopes: Codes, names: Bits) -> Bits:
    """The names that all of some devices share, by scope.

    size             number of scopes, S
    scopes (n, K)    the scopes each device is in, -1 for none
    names  (n, K, W) what it declares there
    ->     (S, W)    all names for scopes without devices
    """
    common = np.full((size, names.shape[2]), ALL, dtype=np.uint64)
    for k in range(scopes.shape[1]):
        used = scopes[:, k] >= 0
        np.bitwise_and.at(common, scopes[used, k], names[used, k])
    return common


def joins(common: Bits, scopes: Codes, names: Bits) -> Mask:
    """Devices that share a name with all that is held, in every scope they are in.

    common (S, W)
    scopes (D, K)    -1 for none
    names  (D, K, W)
    ->     (D,)
    """
    ok = np.ones(len(scopes), dtype=np.bool_)
    for k in range(scopes.shape[1]):
        used = scopes[:, k] >= 0
        if used.any():
            there = common.take(scopes[:, k], axis=0, mode="clip")
            ok &= ~used | ((names[:, k] & there) != 0).any(axis=1)
    return ok


def counted(size: int, marks: int, scopes: Codes, bits: Bits) -> Amounts:
    """How many of some devices have a mark, by scope.

    scopes (n, K)    -1 for none
    bits   (n, K, W)
    ->     (size, marks)
    """
    counts = np.zeros((size, marks), dtype=np.int64)
    for k in range(scopes.shape[1]):
        used = scopes[:, k] >= 0
        np.add.at(counts, scopes[used, k], unpacked(bits[used, k], marks))
    return counts


def tolerated(asked: Amounts, missed: Amounts, scopes: Codes, asks: Bits, meets: Bits, held: Mask) -> Mask:
    """Devices that meet what all others that are held ask for, and whose own demands these meet.

    asked  (S, M)    how many that are held ask for a mark
    missed (S, M)    how many that are held do not meet it
    scopes (D, K)    -1 for none
    asks   (D, K, W)
    meets  (D, K, W)
    held   (D,)      these are among those counted; nothing is judged against itself
    ->     (D,)
    """
    marks = asked.shape[1]
    ok = np.ones(len(scopes), dtype=np.bool_)
    for k in range(scopes.shape[1]):
        used = np.flatnonzero(scopes[:, k] >= 0)
        own, met = unpacked(asks[used, k], marks), unpacked(meets[used, k], marks)
        counts = held[used, None]
        asking = asked[scopes[used, k]] > (counts & own)
        missing = missed[scopes[used, k]] > (counts & ~met)
        ok[used] &= ~((asking & ~met) | (missing & own)).any(axis=1)
    return ok


def beside(one: int, scopes: Codes, asks: Bits, meets: Bits) -> Mask:
    """Devices that tolerate one of them and that it tolerates; itself included.

    scopes (D, K)    -1 for none
    asks   (D, K, W)
    meets  (D, K, W)
    ->     (D,)
    """
    ok = np.ones(len(scopes), dtype=np.bool_)
    for k, scope in enumerate(scopes[one].tolist()):
        if scope < 0:
            continue
        against = (asks[one, k] & ~meets) | (asks & ~meets[one, k])
        ok &= ~((scopes == scope) & (against != 0).any(axis=2)).any(axis=1)
    ok[one] = True
    return ok


def unpacked(bits: Bits, size: int) -> Mask:
    """(..., size) the first bits of rows of words (..., W), one by one."""
    octets = np.ascontiguousarray(bits, dtype="<u8").view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=size, bitorder="little").view(np.bool_)


def packed(mask: Mask) -> Bits:
    """(..., W) rows of single bits (..., size) as words; the rest of the last word is zero."""
    words = -(-mask.shape[-1] // 64)
    room = np.zeros((*mask.shape[:-1], words * 64), dtype=np.bool_)
    room[..., : mask.shape[-1]] = mask
    octets = np.packbits(room, axis=-1, bitorder="little")
    return np.ascontiguousarray(octets).view("<u8").astype(np.uint64, copy=False)
