# ruff: noqa: E501, SIM905
"""What leaks look like: one rule a kind, a pattern that finds candidates and a judgement of each.

Every pattern is matched on windows of bounded length (`leaks.find` cuts them), so that no text of
any length costs more than linear time. Look-alikes decide the judgements: a four-part version is a
valid IPv4 address, ``a::b`` is a valid IPv6 address, a commit is as random as a key.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Callable

from ffsim import opaque

Match = re.Match[str]


@dataclasses.dataclass(frozen=True)
class Rule:
    """A kind of leak, in words, with its pattern and what decides of a match."""

    kind: str
    pattern: re.Pattern[str]
    decide: Callable[[Match], bool] = lambda match: True


def _before(match: Match, size: int = 40) -> str:
    return match.string[max(0, match.start() - size) : match.start()].lower()


def _after(match: Match, size: int = 20) -> str:
    return match.string[match.end() : match.end() + size].lower()


# ---- addresses of people -----------------------------------------------------------------------

_TLDS = frozenset(
    "com org net edu gov mil int info biz name pro mobi jobs museum dev app cloud tech xyz online site email mail "
    "science academy systems company agency studio digital network solutions software ninja life live world today "
    "space website store blog berlin london paris tokyo amsterdam zone works team group internal local localdomain lan "
    "corp intranet home example test invalid".split()
)
_FILE_ENDINGS = frozenset("py sh md rs cc so pl js ts tf pt db gz h5 id ps".split())


def _is_mail(match: Match) -> bool:
    domain = match["domain"].lower().strip(".-")
    labels = domain.split(".")
    tld = labels[-1]
    if _after(match, 1) in {"(", "/"} and len(labels) == 2 and len(labels[0]) == 1:
        return False
    if match["local"] == "git" and _after(match, 1) == ":":
        return False  # git@github.com:owner/name.git names a repository
    if "." not in domain or not tld.isalpha() or min(map(len, labels)) < 1:
        return False
    if _after(match, 1) == "(" or (len(labels[0]) == 1 and len(labels) == 2 and len(match["local"]) == 1):
        return False  # x@w.mT(...)
    return (
        tld in _TLDS or (len(tld) == 2 and tld not in _FILE_ENDINGS) or bool(re.search("mail|contact", _before(match)))
    )


_PHONE_WORD = re.compile(
    r"\b(?:tel|phone|call|mobile|cell|whatsapp|sms|signal|fax|telegram|handy|ring|reach|text me)\b"
)


def _is_phone(match: Match) -> bool:
    text = match[0]
    digits = re.sub(r"\D", "", text)
    groups = re.findall(r"\d+", text)
    if not 7 <= len(digits) <= 15 or re.search(r"\d\.\d+\s|e[-+]", text):
        return False
    if _PHONE_WORD.search(_before(match)):
        return True
    if text.startswith("+"):
        shaped = len(groups) == 1 or all(2 <= len(group) <= 8 for group in groups[1:])
        same_mark = len(set(re.findall(r"[ .-]", text))) <= 2
        return len(digits) >= 10 and shaped and same_mark and len(groups) != 2
    return bool(re.fullmatch(r"\(\d{3}\) ?\d{3}[-. ]\d{4}|\d{3}-\d{3}-\d{4}", text))


# ---- addresses of machines ---------------------------------------------------------------------

_VERSION_BEFORE = re.compile(
    r"(?:\bv|\bver\.?|versions?|release|build|driver|firmware|bios|runtime|sdk|toolkit|tools|package|compiler|dkms|plugin"
    r"|library|python|torch|xla|jax|cuda|cudnn|nccl|efa|libfabric|kernel|gcc|clang|glibc|mkl|neuron\w*"
    r"|[a-z0-9]+[-_][a-z][a-z0-9_-]*)[ :=(v]{0,3}$|[=~<>!]=\s?$|[-_+]$"
)
_HOST_BEFORE = re.compile(
    r"(?:\b(?:ip|ipv4|ipv6|host|hostname|node|master|address|addr|from|at|on|to|via|server|gateway|ssh|ping|curl|worker"
    r"|head|endpoint|peer|proxy|dns|master_addr|connected|reached|bind|listen\w*)[ :=(]{1,3}|[@/])$"
)


def _is_ipv4(match: Match) -> bool:
    try:
        address = ipaddress.IPv4Address(match["ip"])
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified or address.is_multicast or str(address).startswith("255."):
        return False
    before = _before(match)
    if re.match(r":\d{2,5}\b|/\d{1,2}\b", _after(match)) or _HOST_BEFORE.search(before):
        return True
    if _VERSION_BEFORE.search(before):
        return False
    return address.packed[0] >= 10


def _is_ipv6(match: Match) -> bool:
    text = match[0]
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return False
    groups = [group for group in text.split(":") if group]
    if address.is_loopback or address.is_unspecified or len(groups) < 2:
        return False
    return any(len(group) >= 3 for group in groups) and bool(re.search("[a-f]", text.lower()) or "::" in text)


_PRIVATE_ENDINGS = "internal|local|localdomain|lan|corp|intranet|home|private|cluster|consul|svc|hpc"
_INFRA = re.compile(
    r"(?:.*\d|(?:login|node|gpu|host|srv|server|worker|head|jump|bastion|build|dev|db|vpn|jenkins|gitlab|nas|cluster"
    r"|compute|ssh|vault|proxy|registry|artifactory|grafana|mail|ldap|nfs|slurm)[-a-z0-9]*)"
)
_PUBLIC_HOSTS = re.compile(
    r"(?:^|\.)(?:github|githubusercontent|huggingface|pytorch|python|arxiv|openreview|amazon|google|wikipedia|readthedocs)\."
)


def _is_internal_host(match: Match) -> bool:
    name = match[0].lower()
    labels = name.split(".")
    if _after(match, 1) in {"(", "_"} or _PUBLIC_HOSTS.search(name):
        return False
    if re.fullmatch(_PRIVATE_ENDINGS, labels[-1]):
        hostlike = any(re.search(r"[-0-9]", label) for label in labels[:-1]) or _INFRA.fullmatch(labels[0])
        return bool(
            hostlike or labels[-1] in {"corp", "lan", "intranet", "localdomain"} or _HOST_BEFORE.search(_before(match))
        )
    if len(labels) < 3 or not (labels[-1] in _TLDS or len(labels[-1]) == 2) or labels[-1] in _FILE_ENDINGS:
        return False
    inside = any(re.fullmatch(rf"{_PRIVATE_ENDINGS}|int|prod|vpc|infra|eng", label) for label in labels[1:-1])
    return bool(inside or _INFRA.fullmatch(labels[0]) or name.endswith(".amazonaws.com"))


_LOGINS = "ubuntu|ec2-user|root|admin|centos|debian|rocky|opc|azureuser|core|deploy|jenkins|hadoop|slurm|user"


def _is_ssh(match: Match) -> bool:
    if match["user"] == "git":
        return False
    if re.search(r"\b(?:ssh|scp|sftp|rsync|mosh)\b", _before(match)) or re.fullmatch(_LOGINS, match["user"]):
        return True
    return bool(re.match(r":[~/]", _after(match))) and any(map(str.isalpha, match["host"]))


_NOBODY = re.compile(
    r"(?:\$|<|\{|\[|\*|%|(?:user(?:name)?|you|your[-_]?name|name|me|someone|x+|ubuntu|ec2-user|runner|shared)$)", re.I
)


def _is_home(match: Match) -> bool:
    head = match.string[: match.start()]
    url = re.search(r"https?://[^\s]*$", head[-200:])
    return url is None and not _NOBODY.match(match["name"])


# ---- secrets -----------------------------------------------------------------------------------

_HIDDEN = re.compile(
    r"[*x.•#_\-<>{}$\[\]()…?%]+$|.*(?:redact|remove|hidden|masked|censor|placeholder|change_?me|your[-_]|example|\*\*\*|xxxx|\.\.\.)"
    r"|[<$({\[%]|os\.|env\b|(?:none|null|nil|true|false|yes|no|not|unset|empty|required|optional|unknown|n/a|na|see|via|from|in|is|the"
    r"|a|an|on|off|default|missing|disabled|enabled|stored|kept|read|set)$",
    re.I,
)


def _hidden(value: str) -> bool:
    return _HIDDEN.match(value) is not None


def _is_password(match: Match) -> bool:
    value = match["value"].rstrip(".,;:!?)]}")
    if len(value) < 4 or _hidden(value):
        return False
    if match["sign"].strip() in {"=", ":=", "=>", "->"}:
        return True
    if match["sign"].strip() == ":":
        return not value.isalpha() or (len(value) >= 8 and not _after(match).strip())
    return opaque.classes(value) >= 2 or bool(re.search(r"[^A-Za-z0-9.-]", value))


def _is_credential(match: Match) -> bool:
    value = match["value"].rstrip(".,;:!?)]}")
    if _hidden(value) or (re.match(r"(?:[\w.]*[/\\])", value) and not opaque.random_token(value)):
        return False
    return len(value) >= 8 and ((opaque.is_hex(value) and len(value) >= 16) or not opaque.guessable(value))


def _is_prefixed(match: Match) -> bool:
    body = match["body"]
    core = re.sub(r"[^A-Za-z0-9]", "", body)
    return not _hidden(body) and opaque.classes(core) >= 2 and (opaque.is_hex(core) or opaque.strangeness(body) >= 0.5)


def _is_opaque(match: Match) -> bool:
    if re.search(r"(?:sha\d*|md5|blake\w*)[-:=_ ]{1,2}$|0x$", _before(match)):
        return False
    token = match[0]
    if opaque.is_hex(token) and re.search(
        r"sha|hash|digest|commit|rev|md5|checksum|weights|blob|\bid\b", _before(match, 30)
    ):
        return False
    return opaque.random_token(token)


def _is_user_pass(match: Match) -> bool:
    return not _hidden(match["value"])


_NAME = r"(?:[A-Za-z0-9]{1,20}[_.-]){0,4}"
_SIGN = r"['\"\])]{0,2}(?P<sign>\s{0,3}(?::=|=>|->|=|:)\s{0,3}|\s{1,3}(?:is|was)\s{1,3})['\"`(\[]{0,2}"
_VALUE = r"(?P<value>[^\s'\"`,;<>]{4,200})"
_PREFIXES = (
    r"gh[opusr]_|github_pat_|gl[a-z]{2,6}-|hf_|api_org_|sk-|[srp]k_(?:live|test)_|whsec_|AIza|ya29\.|xox[a-z]-|xapp-|npm_"
    r"|pypi-|SG\.|do[oprt]_v1_|dckr_pat_|glsa_|glc_|nvapi-|gsk_|r8_|pplx-|xai-|tvly-|hv[sb]\.|ATATT3|ATBB|dapi|LTAI|PMAK-"
    r"|rubygems_|sntry[su]_|sbp_|tskey-|lin_api_|ntn_|secret_|fig[do]_|shp(?:at|ss|ca|pa)_|wandb_v1_|AKC|EAA|key-|pul-"
    r"|sqp_|squ_|tfp_|vcp_|rnd_|cfut_|pat-|bkua_|oy2|AGE-SECRET-KEY-|A[0-9]{2,4}-"
)


def _rule(kind: str, pattern: str, decide: Callable[[Match], bool] = lambda match: True, flags: int = 0) -> Rule:
    return Rule(kind, re.compile(pattern, flags | re.ASCII), decide)


_I = re.IGNORECASE
RULES: tuple[Rule, ...] = (
    _rule("a private key", r"-{2,5}\s?BEGIN [A-Z0-9 ]{0,30}(?:PRIVATE|SECRET) KEY|PuTTY-User-Key-File|b3BlbnNzaC1rZXk|\bMII[A-Za-z0-9+/]{40}"),
    _rule("an SSH key", r"\bssh-(?:rsa|ed25519|dss|ecdsa)\s{1,3}AAAA[A-Za-z0-9+/]{10,}"),
    _rule("an AWS access key", r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA|AGPA|ANPA|A3T[A-Z0-9])[A-Z0-9]{12,17}(?![a-z])"),
    _rule("a signed token (JWT)", r"\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]{4,}){1,2}"),
    _rule("an access token", rf"(?<![A-Za-z0-9])(?:{_PREFIXES})(?P<body>[A-Za-z0-9_.-]{{16,300}})", _is_prefixed),
    _rule("a signed URL", r"[?&;](?:X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)|AWSAccessKeyId|Signature|sig|access_token|token|auth|apikey"
          r"|api_key|key|Key-Pair-Id)=(?P<value>[^\s&'\"]{8,})", lambda m: not _hidden(m["value"]), _I),
    _rule("a password in a URL", r"[a-z][a-z0-9+.-]{1,20}://[^\s/:@'\"]{0,80}:(?P<value>[^\s/@'\"]{1,120})@[\w\[]", _is_user_pass, _I),
    _rule("a password in a URL", r"https?://(?P<value>[A-Za-z0-9_-]{16,120})@[\w\[]", _is_user_pass, _I),
    _rule("a password", rf"(?<![A-Za-z]){_NAME}(?:pass(?:word|wd|phrase|code)|db_?pass|passwort|pwd|\bpw|\bpass){_SIGN}{_VALUE}", _is_password, _I),
    _rule("a password", r"(?:--(?:password|passwd|pass|token|api[-_]key|secret)[= ]|sshpass -p ?|\s-u \w{2,30}:)['\"]?(?P<value>[^\s'\"]{4,200})",
          _is_user_pass, _I),
    _rule("a credential", rf"(?<![A-Za-z]){_NAME}(?:secrets?|tokens?|credentials?|bearer|authorization|login|(?:api|access|secret|auth|private|service"
          rf"|account|storage|signing|encryption|master|license|deploy|client|wandb|openai|hf)[ _.-]?(?:key|token|secret|id))[a-z_]{{0,12}}{_SIGN}(?:bearer |basic )?{_VALUE}",
          _is_credential, _I),
    _rule("a credential", rf"\b(?:bearer|basic|secret|token|key|credential|wandb login)\s{{1,2}}{_VALUE}", _is_credential, _I),
    _rule("a cloud resource name", r"\barn:aws[a-z-]{0,12}:[a-z0-9-]{1,30}:[a-z0-9-]{0,30}:[0-9]{0,12}:[^\s'\",]{1,200}"),
    _rule("a cloud resource id", r"\b(?:[a-z]{1,12}-[0-9a-f]{17}|(?:i|vol|ami|vpc|subnet|sg|eni|snap|rtb|igw|nat|eipalloc|acl|lt|fs|r|cr|pl|vgw|cgw)-[0-9a-f]{8})\b(?!-)"),
    _rule("a cloud account", r"\b[0-9]{12}\.dkr\.ecr\b|/subscriptions/[0-9a-f]{8}-"),
    _rule("a cloud account", r"\b(?:account|acct|aws|owner|iam|payer|billing|tenant)\b[^\n]{0,25}?\b(?:[0-9]{12}|[0-9]{4}[- ][0-9]{4}[- ][0-9]{4})\b", flags=_I),
    _rule("a cloud account", r"\b(?:[0-9]{12}|[0-9]{4}-[0-9]{4}-[0-9]{4})\b[^\n0-9]{0,12}\baccount\b", flags=_I),
    _rule("a home folder", r"(?:/(?:home|Users|users|export/home)/|[A-Za-z]:\\{1,2}Users\\{1,2}|\\{1,2}home\\{1,2})(?P<name>[^\s/\\'\",:;)]{1,64})", _is_home),
    _rule("a home folder", r"(?<![\w.])(?:~(?P<name>[a-z][a-z0-9_-]{1,31})/|/root/)", lambda m: not m["name"] or not _NOBODY.match(m["name"])),
    _rule("a login on a machine", r"(?<![\w.@-])(?P<user>[a-z_][a-z0-9_-]{0,31})@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]{1,100})", _is_ssh),
    _rule("a login on a machine", r"\bssh\s{1,2}(?:-[A-Za-z]{1,4}\s{1,2}\S{1,80}\s{1,2}){1,4}(?P<host>[A-Za-z0-9][A-Za-z0-9.-]{1,100})"),
    _rule("a login on a machine", r"\bssh\s{1,2}(?=[a-z-]{0,30}[0-9])[a-z][a-z0-9.-]{2,60}"),
    _rule("a user or host name", r"(?<![A-Za-z])(?:user|username|logname|hostname|computername|slurmd_nodename|slurm_(?:job_)?nodelist|master_addr)"
          r"['\"]?\s?[=:]\s?['\"]?(?!localhost|127\.|none|null|unknown|anonymous|\$|<|\{|\*)(?P<value>[A-Za-z][\w.\[\]-]{2,60})", flags=_I),
    _rule("an e-mail address", r"(?<![A-Za-z0-9._%+-])(?P<local>[A-Za-z0-9][A-Za-z0-9._%+-]{0,63})\s?@\s?(?P<domain>[A-Za-z0-9][A-Za-z0-9.-]{1,120}[A-Za-z0-9])", _is_mail),
    _rule("an e-mail address", r"\b[A-Za-z0-9][\w.+-]{0,63}\s{0,2}(?:[\[({<]\s?(?:at|@)\s?[\])}>]|_at_)\s{0,2}[A-Za-z0-9][\w-]{0,63}"
          r"\s{0,2}(?:\.|[\[({<]\s?(?:dot|punkt|\.)\s?[\])}>]|\sdot\s|_dot_)\s{0,2}[A-Za-z]{2,20}\b", flags=_I),
    _rule("an e-mail address", r"\b[A-Za-z0-9][\w.+-]{0,63}\s{1,2}at\s{1,2}[A-Za-z0-9][\w-]{0,63}(?:\s{1,2}dot\s{1,2}[A-Za-z0-9-]{2,20}){1,3}\b", flags=_I),
    _rule("an IP address", r"(?<![\w.])(?P<ip>[0-9]{1,3}(?:\.[0-9]{1,3}){3})(?![\w]|\.[0-9])", _is_ipv4),
    _rule("an IP address", r"\bip-[0-9]{1,3}(?:-[0-9]{1,3}){3}\b"),
    _rule("an IP address", r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])", _is_ipv6),
    _rule("a hardware address", r"(?<![\w:-])[0-9A-Fa-f]{2}(?P<mark>[:-])[0-9A-Fa-f]{2}(?:(?P=mark)[0-9A-Fa-f]{2}){4}(?![\w:-])",
          lambda m: opaque.classes(m[0]) >= 2),
    _rule("an internal host name", r"(?<![\w.@-])[A-Za-z0-9][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9][A-Za-z0-9-]{0,62}){1,6}(?![\w-])", _is_internal_host),
    _rule("an internal host name", r"\b(?:DESKTOP|LAPTOP|WIN)-[A-Z0-9]{7,12}\b|\b[a-z]{2,20}s?-(?:macbook|mbp|imac|thinkpad|laptop|desktop|workstation)\b(?:-[a-z0-9]{1,10})?", flags=_I),
    _rule("a phone number", r"(?<![\w.+-])(?:\+[1-9][0-9]{0,14}|\([0-9]{2,5}\)|[0-9]{2,5})(?:[ ./-]{0,2}(?:\([0-9]{1,5}\)|[0-9]{2,8})){0,6}(?![\w]|\.[0-9])", _is_phone),
    _rule("a long opaque string", r"[A-Za-z0-9+/=_-]{16,}", _is_opaque),
)  # fmt: skip
