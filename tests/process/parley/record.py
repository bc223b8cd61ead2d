"""The recording of every frame and HTTP body, as JSON lines, for validation against schemas/.

Called by the clients. Switched on by the environment variable PARLEY_RECORD (a directory).
Must never change what is sent, and must not fail a test when it is off.
"""

import base64
import collections
import json
import os
import threading

_DIR = os.environ.get("PARLEY_RECORD")
_lock = threading.Lock()
_file = None
_seen = collections.Counter()

# Load clients send thousands of frames alike: after this many of one shape no more are kept.
SAMPLES_PER_SHAPE = 50


def shape(value):
    """The structure of a JSON value: keys and types, without its contents."""
    if isinstance(value, dict):
        return tuple(sorted((k, shape(v)) for k, v in value.items()))
    if isinstance(value, list):
        return tuple(sorted({shape(v) for v in value}, key=repr))
    return type(value).__name__


def write(direction, kind, body, *, sample=False, **fields):
    """Append one line. `body` is a JSON value, text, or bytes (then base64 under `raw`)."""
    global _file
    if not _DIR:
        return
    line = {"dir": direction, "kind": kind}
    line.update({k: v for k, v in fields.items() if v is not None})
    if isinstance(body, (bytes, bytearray)):
        line["raw"] = base64.b64encode(bytes(body[:65536])).decode()
    else:
        line["body"] = body
    if sample:
        key = repr((direction, kind, fields.get("op"), fields.get("ev"), shape(body)))
        with _lock:
            _seen[key] += 1
            if _seen[key] > SAMPLES_PER_SHAPE:
                return
    try:
        text = json.dumps(line, ensure_ascii=True, allow_nan=False)
    except ValueError:  # NaN and the like were sent: what was sent is no JSON
        line["raw"] = base64.b64encode(json.dumps(line.pop("body")).encode()).decode()
        text = json.dumps(line, ensure_ascii=True)
    except TypeError:
        return
    with _lock:
        if _file is None:
            os.makedirs(_DIR, exist_ok=True)
            _file = open(os.path.join(_DIR, f"frames-{os.getpid()}.jsonl"), "a", encoding="utf-8")
        _file.write(text + "\n")
        _file.flush()
