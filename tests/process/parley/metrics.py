"""Reading Prometheus text: samples by name and labels. Used to count statements and to look at
queues; the format itself is checked by promtool."""

import re

_SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)( \d+)?$')
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def parse(text):
    """{(name, frozenset of label pairs): value}"""
    out = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        match = _SAMPLE.match(line)
        assert match, f"not a sample: {line!r}"
        labels = frozenset(_LABEL.findall(match.group(2) or ""))
        key = (match.group(1), labels)
        assert key not in out, f"sample twice: {line!r}"
        out[key] = float(match.group(3))
    return out


def total(samples, name, **labels):
    """The sum over all samples of that name which carry these labels; None where there is none."""
    wanted = set(labels.items())
    found = [v for (n, ls), v in samples.items() if n == name and wanted <= set(ls)]
    return sum(found) if found else None
