"""Which devices may be held at the same time. Rules apply only between devices in the same scope.

Both kinds of rule use sets of names, stored as bits. *Common*: all held devices in a scope must share one
name. *Marks*: a device asks for some marks, and every other held device in the scope must meet them.
"""

import numpy as np

from kernels.types import Amounts, Bits, Codes, Mask

ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""All names, present and future"""


def shared_by_all(size: int, scopes: Codes, names: Bits) -> Bits:
    """The names that all devices in a scope share.

    size             number of scopes, S
    scopes (n, K)    scopes of each device, -1 for none
    names  (n, K, W) names that the device declares in each of its scopes
    ->     (S, W)    `ALL` for scopes without devices
    """
    common = np.full((size, names.shape[2]), ALL, dtype=np.uint64)
    for k in range(scopes.shape[1]):
        used = scopes[:, k] >= 0
        np.bitwise_and.at(common, scopes[used, k], names[used, k])
    return common


def shares_a_name(common: Bits, scopes: Codes, names: Bits) -> Mask:
    """Devices that share a name with all held devices, in each of their scopes.

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


def count_marks(size: int, marks: int, scopes: Codes, bits: Bits) -> Amounts:
    """How many devices have each mark, by scope.

    scopes (n, K)    -1 for none
    bits   (n, K, W)
    ->     (size, marks)
    """
    counts = np.zeros((size, marks), dtype=np.int64)
    for k in range(scopes.shape[1]):
        used = scopes[:, k] >= 0
        np.add.at(counts, scopes[used, k], unpack_bits(bits[used, k], marks))
    return counts


def compatible(asked: Amounts, missed: Amounts, scopes: Codes, asks: Bits, meets: Bits, held: Mask) -> Mask:
    """Devices that meet the marks of all other held devices, and whose own marks those meet.

    asked  (S, M)    number of held devices that ask for a mark
    missed (S, M)    number of held devices that do not meet it
    scopes (D, K)    -1 for none
    asks   (D, K, W)
    meets  (D, K, W)
    held   (D,)      devices included in `asked` and `missed`; a device is not compared with itself
    ->     (D,)
    """
    marks = asked.shape[1]
    ok = np.ones(len(scopes), dtype=np.bool_)
    for k in range(scopes.shape[1]):
        used = np.flatnonzero(scopes[:, k] >= 0)
        own, met = unpack_bits(asks[used, k], marks), unpack_bits(meets[used, k], marks)
        counts = held[used, None]
        asking = asked[scopes[used, k]] > (counts & own)
        missing = missed[scopes[used, k]] > (counts & ~met)
        ok[used] &= ~((asking & ~met) | (missing & own)).any(axis=1)
    return ok


def compatible_with(one: int, scopes: Codes, asks: Bits, meets: Bits) -> Mask:
    """Devices that are compatible with one device, in both directions; that device included.

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


def unpack_bits(bits: Bits, size: int) -> Mask:
    """(..., size) the first bits of rows of words (..., W), one bool a bit."""
    octets = np.ascontiguousarray(bits, dtype="<u8").view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=size, bitorder="little").view(np.bool_)


def pack_bits(mask: Mask) -> Bits:
    """(..., W) rows of bools (..., size) as words; the last word is padded with zeros."""
    words = -(-mask.shape[-1] // 64)
    room = np.zeros((*mask.shape[:-1], words * 64), dtype=np.bool_)
    room[..., : mask.shape[-1]] = mask
    octets = np.packbits(room, axis=-1, bitorder="little")
    return np.ascontiguousarray(octets).view("<u8").astype(np.uint64, copy=False)
