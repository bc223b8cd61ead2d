"""Byte sequences for the UTF-8 groups (6.5 to 6.23) made from the rules of UTF-8 themselves:
overlong forms, surrogates, out of range, truncation, boundaries, non-characters."""


def encode(point, length):
    """`point` in a form of `length` bytes, overlong or not, also beyond U+10FFFF."""
    if length == 1:
        return bytes([point])
    lead = {2: 0xC0, 3: 0xE0, 4: 0xF0, 5: 0xF8, 6: 0xFC}[length]
    out = [0x80 | (point >> (6 * i) & 0x3F) for i in range(length - 1)]
    return bytes([lead | point >> (6 * (length - 1)), *reversed(out)])


def valid():
    """Texts that must come back as they are (no U+0000, which Parley refuses)."""
    out = ["κόσμε", "\x7f", "\u0080", "\u07ff", "\u0800", "\uffff", "\U00010000", "\U0010ffff",
           "\ud7ff", "\ue000", "\ufffd", "Hello-µ@ßöäüàá-UTF-8!!", "κόσμε" * 30, "\u0001"]
    greek = "κόσμε".encode()
    out += [greek[:cut].decode() for cut in (2, 5, 7, 9, 11) if _whole(greek[:cut])]
    for plane in range(17):
        out += [chr(plane * 0x10000 + 0xFFFE), chr(plane * 0x10000 + 0xFFFF)]
    out += [chr(0xFDD0), chr(0xFDEF), "\u2028\u2029", "\ufeffx", "e\u0301", "👨‍👩‍👧‍👦", "𠮷野家"]
    return out


def _whole(data):
    try:
        data.decode()
        return True
    except UnicodeDecodeError:
        return False


def invalid():
    """Bytes that are not UTF-8."""
    out = [b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc3\x28", b"\xff", b"\xfe",
           b"\xfe\xfe\xff\xff", b"\x80", b"\xbf", b"\x80" * 2, b"\x80\xbf" * 3]
    out += [encode(0x2F, n) for n in (2, 3, 4, 5, 6)]  # overlong "/"
    out += [encode(p, n) for p, n in
            ((0x7F, 2), (0x7FF, 3), (0xFFFF, 4), (0x1FFFFF, 5), (0x3FFFFFF, 6))]  # overlong maxima
    out += [encode(0, n) for n in (2, 3, 4, 5, 6)]
    out += [encode(p, 3) for p in (0xD800, 0xDB7F, 0xDB80, 0xDBFF, 0xDC00, 0xDF80, 0xDFFF)]
    out += [encode(0xD800 + i * 0x80, 3) + encode(0xDC00 + i, 3) for i in range(8)]  # CESU pairs
    out += [encode(0x110000, 4), encode(0x1FFFFF, 4), encode(0x200000, 5), encode(0x4000000, 6),
            encode(0x7FFFFFFF, 6)]
    out += [bytes([lead]) for lead in (0xC2, 0xDF, 0xE0, 0xEF, 0xF0, 0xF4)]  # lonely leads
    out += [bytes([lead]) + b" " for lead in (0xC2, 0xE0, 0xF0)]
    greek, wide = "κόσμε".encode(), "\U0010ffff".encode()
    out += [greek[:cut] for cut in range(1, len(greek)) if not _whole(greek[:cut])]
    out += [wide[:1], wide[:2], wide[:3], greek + b"\xed\xa0\x80" + b"edited"]
    out += [bytes([b]) * 2 for b in range(0xF5, 0x100)]
    for data in out:
        assert not _whole(data), data
    return out
