"""A JavaScript challenge in front of the outlet.

Whoever comes without clearance gets a page whose script looks for a number and sends it
in. The answer is a cookie that is good for one user agent only.
"""

from __future__ import annotations

import secrets

from storefront.answers import Answer
from storefront.visit import Visit, signed, text_of

COOKIE = "clearance"
PATH = "/challenge"
DIFFICULTY = 4096
"""How many numbers the script tries, about."""


def is_cleared(visit: Visit) -> bool:
    """Tell whether a visitor has the cookie, and the user agent that it is for."""
    return bool(text_of(visit.cookies.get(COOKIE, ""), COOKIE, visit.agent))


def challenge(visit: Visit) -> Answer:
    """Return the page that is shown in place of the one that was asked for."""
    text = signed(secrets.token_hex(8), PATH, visit.agent)
    return Answer(403, PAGE.replace("CHALLENGE", text))


def answer(visit: Visit) -> Answer:
    """Take what the script sends, and grant clearance if it is right."""
    text, number = (visit.form.get(name, "") for name in ("challenge", "number"))
    nonce = text_of(text, PATH, visit.agent)
    if not nonce or fnv1a(text + number) % DIFFICULTY:
        return Answer(403, "Wrong.\n", "plain")
    cookie = f"{COOKIE}={signed(nonce, COOKIE, visit.agent)}; Path=/; HttpOnly"
    return Answer(200, "Right.\n", "plain", cookies=(cookie,))


def fnv1a(text: str) -> int:
    """Return the 32-bit FNV-1a hash of an ASCII text."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


PAGE = """<!DOCTYPE html>
<title>One moment</title>
<link rel="icon" href="data:,">
<p>Looking at your browser.</p>
<script data-challenge="CHALLENGE">
  const { challenge } = document.currentScript.dataset;
  function fnv1a(text) {
    let value = 0x811c9dc5;
    for (const one of text) {
      value = Math.imul(value ^ one.charCodeAt(0), 0x01000193) >>> 0;
    }
    return value;
  }
  let number = 0;
  while (fnv1a(challenge + number) % DIFFICULTY) number++;
  fetch("PATH", { method: "POST", body: new URLSearchParams({ challenge, number }) })
    .then(() => location.reload());
</script>
""".replace("DIFFICULTY", str(DIFFICULTY)).replace("PATH", PATH)
