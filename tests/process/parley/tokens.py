"""Making and forging JSON Web Tokens with nothing but hmac; used where a test plays the issuer
or an attacker. Knows the key only by reading secret.key from the data folder."""

import base64
import hashlib
import hmac
import json
import os
import time

HASHES = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def decode(token):
    """(header, claims) without any check."""
    head, body, _ = token.split(".")
    return json.loads(unb64(head)), json.loads(unb64(body))


def sign(claims, key, *, alg="HS256", header=None, signature=None, raw_claims=None):
    """A compact JWS. `header` replaces the header; signature replaces the bytes at the end;
    raw_claims replaces the payload's bytes (for what json.dumps will not write)."""
    head = {"alg": alg, "typ": "JWT"} if header is None else header
    body = raw_claims if raw_claims is not None else json.dumps(claims).encode()
    text = f"{b64(json.dumps(head).encode())}.{b64(body)}"
    if signature is None:
        digest = HASHES.get(alg, hashlib.sha256)
        signature = hmac.new(key, text.encode(), digest).digest()
    return f"{text}.{b64(signature)}"


def claims(sub, *, ttl=3600, gen=0, **more):
    """The claims of the server's own tokens; exp in `ttl` seconds."""
    now = int(time.time())
    out = {"iss": "parley", "sub": sub, "jti": os.urandom(12).hex(), "gen": gen,
           "iat": now, "exp": now + ttl}
    out.update(more)
    return {k: v for k, v in out.items() if v is not None}
