"""What decides whether a candidate is a leak: one judgement a kind, over the match of its pattern.

Look-alikes set the judgements: a four-part version is a valid IPv4 address, ``a::b`` is a valid
IPv6 address, a commit is as random as a key, ``x@w.mT`` has the form of an e-mail address. What a
word just before or after says therefore counts as much as the candidate itself.
"""

from __future__ import annotations

import ipaddress
import re

from ffsim import opaque

Match = re.Match[str]

_TLD_WORDS = (
    "com org net edu gov mil int info biz name pro mobi jobs museum dev app cloud tech xyz online site email mail "
    "science academy systems company agency studio digital network solutions software ninja life live world today "
    "space website store blog berlin london paris tokyo amsterdam zone works team group internal local localdomain "
    "lan corp intranet intra home example test invalid"
)
TLDS = frozenset(_TLD_WORDS.split())
# Countries of these names have more files than people in a record of a training run.
FILE_ENDINGS = frozenset({"py", "sh", "md", "rs", "cc", "so", "pl", "js", "ts", "tf", "pt", "db", "gz", "id", "ps"})
_UNITS = re.compile(r"\s?(?:tokens?|bytes?|steps?|flops?|params?|parameters|nats|updates|times|of [0-9])\b")


def _before(match: Match, size: int = 40) -> str:
    return match.string[max(0, match.start() - size) : match.start()].lower()


def _after(match: Match, size: int = 20) -> str:
    return match.string[match.end() : match.end() + size].lower()


def _tld(label: str) -> bool:
    return label in TLDS or (len(label) == 2 and label.isalpha() and label not in FILE_ENDINGS)


# ---- people ------------------------------------------------------------------------------------


def is_mail(match: Match) -> bool:
    """`local@domain`, but no decorator, no matrix product, no repository, no file."""
    labels = match["domain"].lower().strip(".-").split(".")
    if len(labels) > 2 and labels[-1] in {"json", "yaml", "yml", "txt", "log", "csv"}:
        labels.pop()  # a file called after somebody
    following = _after(match, 1)
    repository = match["local"] == "git" and following == ":"
    product = following == "(" or (len(labels) == 2 and len(labels[0]) == len(match["local"]) == 1)
    if len(labels) < 2 or not all(labels) or not labels[-1].isalpha() or repository or product:
        return False
    if " " in match["at"]:
        return labels[-1] in TLDS
    return _tld(labels[-1]) or bool(re.search("mail|contact|write to|ask", _before(match)))


def is_spoken_mail(match: Match) -> bool:
    """`name at host dot org`, and no dot product."""
    return _tld(match["tld"].lower())


_PHONE_WORD = re.compile(
    r"\b(?:tel|telefon|phone|call|mobile|mobil|cell|whatsapp|sms|signal|fax|handy|ring|reach|text me|number is)\b"
)


def is_phone(match: Match) -> bool:
    """Seven to fifteen digits that a country code, the usual grouping, or a word calls a phone number."""
    text = match[0]
    groups = re.findall(r"\d+", text)
    while len("".join(groups)) > 15:
        groups.pop()  # a number that follows
    digits = "".join(groups)
    if len(digits) >= 7 and _PHONE_WORD.search(_before(match)) and not re.search(r"\d\.\d+\s", text):
        return not _UNITS.match(_after(match)) or text.startswith("+")
    if text.startswith("+"):
        parts = len(groups) > 2 and len(groups[0]) <= 3 and all(2 <= len(group) <= 8 for group in groups[1:])
        shaped = len(groups) == 1 or parts
        return len(digits) >= 10 and shaped and len(set(re.findall(r"[ .-]", text))) <= 2
    counted = _UNITS.match(_after(match)) or re.search(r"\b(?:steps?|tokens?|switch\w*|epochs?)\b", _before(match, 25))
    usual = r"(?<![\d-])(?:\(\d{3}\) ?\d{3}[-. ]\d{4}|\d{3}-\d{3}-\d{4})(?![\d-])"
    return not counted and re.search(usual, text) is not None


_NOBODY = re.compile(
    r"[$<{\[*%]|(?:user(?:name)?|you|your[-_]?name|name|me|someone|x+|ubuntu|ec2-user|runner|shared)$", re.IGNORECASE
)


def is_home(match: Match) -> bool:
    """A folder of somebody, not of a placeholder or of a machine image's standard user."""
    in_url = re.search(r"https?://[^\s]*$", match.string[max(0, match.start() - 200) : match.start()])
    return in_url is None and not _NOBODY.match(match["name"] or "root")


# ---- machines ----------------------------------------------------------------------------------

_VERSION_WORD = (
    r"(?:\bv|\bver\.?|\bversions?|release|build|driver|firmware|bios|runtime|sdk|toolkit|tools|package|compiler|dkms"
    r"|plugin|library|python|torch|xla|jax|cuda|cudnn|nccl|\befa|libfabric|kernel|gcc|clang|glibc|mkl|neuron\w*)"
)
_VERSION_BEFORE = re.compile(rf"(?:{_VERSION_WORD}|[a-z0-9]+[-_][a-z][a-z0-9_-]*)[ :=(v]{{0,3}}$|[=~<>!]=\s?$|[-_+]$")
_VERSION_NEAR = re.compile(rf"{_VERSION_WORD}(?![a-z])")
_HOST_BEFORE = re.compile(
    r"(?:\b(?:ip|ipv4|ipv6|host|hostname|node|master|address|addr|via|server|gateway|ssh|ping|curl|worker|head|endpoint"
    r"|peer|proxy|dns|master_addr|connected to|reached|bind|listen\w*)[ :=(]{1,3}|[@/])$"
)


def is_ipv4(match: Match) -> bool:
    """An address that leads to a machine, and no version of four parts."""
    try:
        address = ipaddress.IPv4Address(match["ip"])
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified or address.is_multicast or address.packed[0] == 255:
        return False
    before = _before(match, 60)
    if re.match(r":\d{2,5}\b|/\d{1,2}\b", _after(match)) or _HOST_BEFORE.search(before):
        return True
    return address.packed[0] >= 10 and not _VERSION_BEFORE.search(before) and not _VERSION_NEAR.search(before)


def is_ipv6(match: Match) -> bool:
    """An address, and no C++ name, ratio or time."""
    text = match[0].lower()
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return False
    groups = [group for group in text.split(":") if group]
    if address.is_loopback or address.is_unspecified or len(groups) < 2:
        return False
    return any(len(group) >= 3 for group in groups) and bool(re.search("[a-f]", text) or "::" in text)


_PRIVATE = "internal|local|localdomain|lan|corp|intranet|intra|home|private|cluster|consul|svc|hpc"
_INSIDE = re.compile(rf"{_PRIVATE}|int|prod|vpc|infra|eng")
_MACHINE = (
    "login|node|gpu|host|srv|server|worker|head|jump|bastion|build|dev|db|vpn|jenkins|gitlab|nas|cluster|compute|ssh"
    "|vault|proxy|registry|artifactory|grafana|mail|ldap|nfs|slurm"
)
_INFRA = re.compile(rf".*\d|(?:{_MACHINE})[-a-z0-9]*")
_NUMBERED = re.compile(rf"[a-z0-9-]*(?:{_MACHINE})-?\d+")
_PUBLIC = re.compile(r"(?:^|\.)(?:github|githubusercontent|huggingface|pytorch|python|arxiv|openreview|wikipedia)\.")


def is_internal_host(match: Match) -> bool:
    """A name that only an own network resolves, or a single machine of an institution."""
    name = match[0].lower()
    labels = name.split(".")
    if _after(match, 1) in {"(", "_"} or _PUBLIC.search(name) or not labels[-1].isalpha():
        return False
    if re.fullmatch(_PRIVATE, labels[-1]):
        marked = any(re.search(r"[-0-9]", label) for label in labels[:-1]) or _INFRA.fullmatch(labels[0])
        plain = labels[-1] in {"corp", "lan", "intranet", "intra", "localdomain"}
        return bool(marked or plain or _HOST_BEFORE.search(_before(match)))
    inside = any(_INSIDE.fullmatch(label) for label in labels[1:-1])
    if inside and _NUMBERED.fullmatch(labels[0]):
        return True
    if len(labels) < 3 or not _tld(labels[-1]):
        return False
    return bool(inside or _INFRA.fullmatch(labels[0]) or name.endswith(".amazonaws.com"))


_LOGINS = re.compile(
    "ubuntu|ec2-user|root|admin|centos|debian|rocky|opc|azureuser|core|deploy|jenkins|hadoop|slurm|user"
)
_PROMPT = re.compile(r":[~/]|[: ][~/][^\s]{0,15}[\])]{0,2}\s?[$#%]|\s?[\])]?\s?[$#]\s")


def is_login(match: Match) -> bool:
    """`user@machine` of a remote command, of a shell prompt, or of a standard user."""
    if match["user"] == "git" or not any(map(str.isalpha, match["host"])):
        return False
    remote = re.search(r"\b(?:ssh|scp|sftp|rsync|mosh)\b", _before(match))
    return bool(remote or _LOGINS.fullmatch(match["user"]) or _PROMPT.match(_after(match)))


# ---- secrets -----------------------------------------------------------------------------------

_HIDDEN = re.compile(
    r"[*x.•#_\-<>{}$\[\]()…?%]+$"
    r"|.*(?:redact|remove|hidden|masked|censor|placeholder|change_?me|your[-_]|\*\*\*|xxxx|\.\.\.)"
    r"|[<$({\[%]|os\.|env\b|(?:none|null|nil|true|false|yes|no|not|unset|empty|required|optional|unknown|n/a|na|see|via"
    r"|from|in|is|the|a|an|on|off|default|missing|disabled|enabled|stored|kept|read|set|example)$",
    re.IGNORECASE,
)


def _value(match: Match) -> str:
    return match["value"].rstrip(".,;:!?)]}")


def is_shown(match: Match) -> bool:
    """A value that stands there, and no placeholder."""
    return not _HIDDEN.match(match["value"])


def is_password(match: Match) -> bool:
    """What is assigned to a password: any value after `=`; after `:` or `is`, no plain word."""
    value = _value(match)
    if (
        len(value) < 4
        or _HIDDEN.match(value)
        or (match.groupdict().get("weak") and re.fullmatch(r"[\d.,%]+\w{0,3}", value))
    ):
        return False
    sign = match["sign"].strip()
    if sign in {"=", ":=", "=>", "->"}:
        return True
    if sign == ":":
        return not value.isalpha() or (len(value) >= 8 and not _after(match).strip())
    return len(value) >= 5 and (opaque.classes(value) >= 2 or bool(re.search(r"[^A-Za-z0-9.-]", value)))


def is_credential(match: Match) -> bool:
    """What is assigned to a token or key: no count, no path, no word."""
    value = _value(match)
    if _HIDDEN.match(value) or (re.match(r"[\w.]*[/\\]", value) and not opaque.random_token(value)):
        return False
    return len(value) >= 8 and ((opaque.is_hex(value) and len(value) >= 16) or not opaque.guessable(value))


def is_named_credential(match: Match) -> bool:
    """What follows a bare word such as `token`: long and random; after `key`, no digest."""
    value = _value(match)
    if len(value) < 16 or _HIDDEN.match(value):
        return False
    if opaque.is_hex(value):
        return match["word"].lower() != "key" and len(value) >= 32
    return opaque.random_token(value)


def is_prefixed(match: Match) -> bool:
    """A known prefix and a random rest, and no name that happens to begin so."""
    body = match["body"]
    core = re.sub(r"[^A-Za-z0-9]", "", body)
    return not _HIDDEN.match(body) and generated(core)


def generated(core: str) -> bool:
    """Whether letters and digits in a token's form were generated."""
    return opaque.classes(core) >= 2 and (opaque.is_hex(core) or opaque.strangeness(core) >= 0.5)


def is_opaque(match: Match) -> bool:
    """A generated string that no word before it calls a digest."""
    token = match[0]
    digest = r"(?:sha\d*|md5|blake\w*)[-:=_ ]{1,2}"
    if re.search(f"{digest}$", _before(match)) or re.match(digest, token) or re.fullmatch("0x[0-9A-Fa-f]{1,16}", token):
        return False
    words = r"sha|hash|digest|commit|rev|md5|checksum|weights|blob|\bid\b"
    if opaque.is_hex(token) and re.search(words, _before(match, 30)):
        return False
    return opaque.random_token(token)


def is_account(match: Match) -> bool:
    """Twelve digits beside the word account, but no count of tokens."""
    counted = _UNITS.match(_after(match)) or re.search(r"account(?:s|ed|ing)? for", match[0], re.IGNORECASE)
    return not counted
