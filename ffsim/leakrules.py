"""The table of what leaks look like: a kind in words, a pattern that finds candidates, a judgement.

Patterns see windows of bounded size (`leaks.find` cuts them) and repeat nothing without a bound, so
that a text of any length costs linear time. The judgements are in `leakjudge`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

from ffsim import leakjudge as judge


def _always(match: re.Match[str]) -> bool:
    return True


@dataclasses.dataclass(frozen=True)
class Rule:
    """A kind of leak, in words with an article; its pattern; what decides of a match."""

    kind: str
    pattern: re.Pattern[str]
    decide: Callable[[re.Match[str]], bool] = _always


def _rule(kind: str, pattern: str, decide: Callable[[re.Match[str]], bool] = _always) -> Rule:
    """A rule whose pattern is written verbosely: blanks in it count for nothing."""
    return Rule(kind, re.compile(pattern, re.ASCII | re.VERBOSE), decide)


_NAME = r"[A-Za-z0-9][\w.+-]{0,63}"
_LABEL = r"[A-Za-z0-9][A-Za-z0-9-]{0,62}"
# From a name to its value: `X = v`, `"X": "v"`, `X is v`, `X ist v`.
_SIGN = r"""['"\])]{0,2} (?P<sign> \s{0,3}(?::=|=>|->|=|:)\s{0,3}
            | \s{1,3}(?:is|was|ist|lautet|est|es|är)\s{1,3} )
            ['"`(\[]{0,2}"""
_VALUE = r"""(?P<value>[^\s'"`,;<>]{4,200})"""
_NAMES = r"password|passwd|passphrase|passcode|passwort|kennwort|contrase[nñ]a|mot\ de\ passe|senha|密码|パスワード|pwd"
_KEY_OF = "api|access|secret|auth|private|service|account|storage|signing|encryption|master|license|deploy|client"

PEOPLE = (
    _rule("an e-mail address", r"(?<![\w.%+-]) (?P<local>[A-Za-z0-9][\w.%+-]{0,63}) (?P<at>@|\s@\s)"
          r"(?P<domain>[A-Za-z0-9][A-Za-z0-9.-]{1,120}[A-Za-z0-9])", judge.is_mail),
    _rule("an e-mail address", rf"(?i) \b{_NAME} \s{{0,2}}(?:[\[({{<]\s?(?:at|@)\s?[\])}}>]|_at_)\s{{0,2}} {_LABEL}"
          r"\s{0,2}(?: \. | [\[({<]\s?(?:dot|punkt|\.)\s?[\])}>] | \sdot\s | _dot_ )\s{0,2} [A-Za-z]{2,20}\b"),
    _rule("an e-mail address",
          rf"(?i) \b{_NAME} \s{{1,2}}at\s{{1,2}} {_LABEL} (?:\s{{1,2}}dot\s{{1,2}}(?P<tld>{_LABEL})){{1,3}}",
          judge.is_spoken_mail),
    _rule("a phone number", r"(?<![\w.+-]) (?: \+[1-9][0-9]{0,14} | \([0-9]{2,5}\) | [0-9]{2,5} )"
          r"(?: [ ./-]{0,2} (?: \([0-9]{1,5}\) | [0-9]{2,8}+(?![0-9]) ) ){0,6} (?!\w|\.[0-9])", judge.is_phone),
    _rule("a home folder", r"""(?: /(?:home|Users|users|export/home)/
          | [A-Za-z]:\\{1,2}Users\\{1,2} | \\{1,2}home\\{1,2} )
          (?P<name>[^\s/\\'",:;)]{1,64})""", judge.is_home),
    _rule("a home folder", r"(?<![\w.]) (?: ~(?P<name>[a-z][a-z0-9_-]{1,31})/ | /root/ )", judge.is_home),
    _rule("a user or host name", r"""(?i) (?<![A-Za-z])
          (?:user|username|logname|hostname|computername|slurmd_nodename|slurm_(?:job_)?nodelist|master_addr)
          ['"]?\s?[=:]\s?['"]? (?!localhost|127\.|none|null|unknown|anonymous|[$<{*])
          (?P<value>[A-Za-z][\w.\[\]-]{2,60})"""),
)  # fmt: skip

MACHINES = (
    _rule("an IP address", r"(?<![\w.]) (?P<ip>[0-9]{1,3}(?:\.[0-9]{1,3}){3}) (?!\w|\.[0-9])", judge.is_ipv4),
    _rule("an IP address", r"\bip-[0-9]{1,3}(?:-[0-9]{1,3}){3}\b"),
    _rule("an IP address", r"(?<![\w:.]) [0-9A-Fa-f]{0,4}(?: :[0-9A-Fa-f]{0,4} ){2,7} (?![\w:])", judge.is_ipv6),
    _rule("a hardware address", r"(?<![\w:-]) (?=[0-9:-]{0,16}[A-Fa-f])"
          r"[0-9A-Fa-f]{2}(?P<mark>[:-])[0-9A-Fa-f]{2}(?:(?P=mark)[0-9A-Fa-f]{2}){4} (?![\w:-])"),
    _rule("an internal host name", rf"(?<![\w.@-]) {_LABEL}(?:\.{_LABEL}){{1,6}} (?![\w-])", judge.is_internal_host),
    _rule("an internal host name", r"\b(?:DESKTOP|LAPTOP|WIN)-[A-Z0-9]{7,12}\b"),
    _rule("an internal host name",
          r"(?i) \b[a-z]{2,20}-(?:macbook|mbp|imac|thinkpad|laptop|desktop|workstation)(?:-[a-z0-9]{1,10})?\b"),
    _rule("a login on a machine",
          r"(?<![\w.@-]) (?P<user>[a-z_][a-z0-9_-]{0,31})@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]{1,100})", judge.is_login),
    _rule("a login on a machine",
          r"\bssh\s{1,2} (?:-[A-Za-z]{1,4}\s{1,2}\S{1,80}\s{1,2}){1,4} [A-Za-z0-9][A-Za-z0-9.-]{1,100}"),
    _rule("a login on a machine", r"\bssh\s{1,2} (?=[a-z-]{0,30}[0-9]) [a-z][a-z0-9.-]{2,60}"),
    _rule("a cloud resource name",
          r"""\barn:aws[a-z-]{0,12} :[a-z0-9-]{1,30} :[a-z0-9-]{0,30} :[0-9]{0,12} :[^\s'",]{1,200}"""),
    _rule("a cloud resource id", r"\b (?: [a-z]{1,12}-[0-9a-f]{17} | (?:i|vol|ami|vpc|subnet|sg|eni|snap|rtb|igw|nat"
          r"|eipalloc|acl|lt|fs|r|cr|pl|vgw|cgw)-[0-9a-f]{8} ) \b(?!-)"),
    _rule("a cloud account", r"\b[0-9]{12}\.dkr\.ecr\b | /subscriptions/[0-9a-f]{8}-"),
    _rule("a cloud account", r"(?i) \b(?:s3|gs|https?)://[a-z0-9./-]{0,80}? (?<![0-9])[0-9]{12}(?![0-9])"
          r" | \b[a-z]{2}-[a-z]{4,12}-[0-9]-[0-9]{12}\b"),
    _rule("a cloud account", r"(?i) \b(?:account|acct|aws|owner|iam|payer|billing|tenant)(?:s|ed|ing)?\b [^\n]{0,25}?"
          r"\b(?: [0-9]{12} | [0-9]{4}[-\ ][0-9]{4}[-\ ][0-9]{4} )\b", judge.is_account),
    _rule("a cloud account", r"(?i) \b(?: [0-9]{12} | [0-9]{4}-[0-9]{4}-[0-9]{4} )\b [^\n0-9]{0,12} \baccount\b",
          judge.is_account),
)  # fmt: skip

SECRETS = (
    _rule("a private key", r"-{2,5}\s?BEGIN\s[A-Z0-9\ ]{0,30}(?:PRIVATE|SECRET)\ KEY | PuTTY-User-Key-File"
          r" | b3BlbnNzaC1rZXk | \bMII[A-Za-z0-9+/]{40}"),
    _rule("an SSH key", r"\bssh-(?:rsa|ed25519|dss|ecdsa)\s{1,3}AAAA[A-Za-z0-9+/]{10,}"),
    _rule("an AWS access key",
          r"(?<![A-Za-z0-9]) (?:A[KS]IA|ABIA|ACCA|AROA|AIDA|AGPA|ANPA|A3T[A-Z0-9])[A-Z0-9]{12,17} (?![a-z])"),
    _rule("a signed token (JWT)", r"\beyJ[\w-]{8,400}(?:\.[\w-]{4,400}){1,2}"),
    _rule("an access token", r"""(?<![A-Za-z0-9]) (?: gh[opusr]_ | github_pat_ | gl[a-z]{2,6}- | hf_ | api_org_
          | sk- | [srp]k_(?:live|test)_ | whsec_ | AIza | ya29\. | xox[a-z]- | xapp- | npm_ | pypi- | SG\.
          | do[oprt]_v1_ | dckr_pat_ | gl(?:sa|c)_ | nvapi- | gsk_ | r8_ | pplx- | xai- | tvly- | hv[sb]\. | ATATT3
          | ATBB | dapi | LTAI | PMAK- | rubygems_ | sntry[su]_ | sbp_ | tskey- | lin_api_ | ntn_ | secret_ | fig[do]_
          | shp(?:at|ss|ca|pa)_ | wandb_v1_ | AKC | EAA | key- | pul- | sq[pu]_ | tfp_ | vcp_ | rnd_
          | cfut_ | pat- | bkua_ | oy2
          | AGE-SECRET-KEY- ) (?P<body>[\w.-]{16,300})""", judge.is_prefixed),
    _rule("a signed URL", r"""(?i) [?&;] (?: X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token) | AWSAccessKeyId
          | Signature | sig | access_token | token | auth | api_?key | key | Key-Pair-Id )
          =(?P<value>[^\s&'"]{8,300})""", judge.is_shown),
    _rule("a password in a URL", r"""(?i)
          [a-z][a-z0-9+.-]{1,20}://[^\s/:@'"]{0,80} :(?P<value>[^\s/@'"]{1,120})@[\w\[]""",
          judge.is_shown),
    _rule("a password in a URL", r"https?://(?P<value>[\w-]{16,120})@[\w\[]", judge.is_shown),
    _rule("a password", rf"(?i) (?:{_NAMES} | (?P<weak>(?:\b|_|db|ssh)pass|\bpw)) {_SIGN} {_VALUE}", judge.is_password),
    _rule("a password", rf"(?i) (?:{_NAMES}) \b[^\n=:]{{1,60}}?"
          rf"(?P<sign> \s(?:is|ist|lautet|est|es|är)\s ) ['\"`]? {_VALUE}", judge.is_password),
    _rule("a password", r"""(?i)
          (?: --(?:password|passwd|pass|token|api[-_]key|secret)[=\ ] | sshpass\ -p\ ? | \s-u\ \w{2,30}: )
          ['"]?(?P<value>[^\s'"]{4,200})""", judge.is_shown),
    _rule("a credential", rf"""(?i) (?: secrets? | tokens? | credentials? | bearer | authorization | (?<![a-z])login
          | (?:{_KEY_OF}|wandb|openai|hf)[\ _.-]?(?:key|token|secret|id\b) ) [a-z_]{{0,12}} {_SIGN}
          (?:bearer\ |basic\ )? {_VALUE}""", judge.is_credential),
    _rule("a credential",
          rf"(?i) \b(?P<word>bearer|basic|secret|token|key|credential|login|api\ key) \s{{1,2}} {_VALUE}",
          judge.is_named_credential),
    _rule("a long opaque string", r"[A-Za-z0-9+/=_-]{16,}", judge.is_opaque),
)  # fmt: skip

RULES: tuple[Rule, ...] = SECRETS + MACHINES + PEOPLE
