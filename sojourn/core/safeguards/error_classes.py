"""Classify errors by one ordered table of message texts.

The table also holds the next steps for a person. A new class is a new row (ME-3, ME-17). The first row
that matches decides, and the last one matches everything. A structured reason is compared before the
text. Patterns match whole words, in lower case with single spaces, so that "not configured", "flagged"
and "context window exceeded" are not plotting errors. Messages are hostile and may be long: only their
beginning is read, and no pattern repeats without a bound.
"""

import re
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from sojourn.contracts.tool_error import RetryReason
from sojourn.values.text import plain

__all__ = [
    "ERROR_CLASSES",
    "MAX_READ",
    "RULES",
    "ErrorClass",
    "Match",
    "class_named",
    "classify",
    "match_class",
]

RULES = 4
"""The current version of the rules.

A run keeps an earlier version if that one has judged it with another outcome.
"""

MAX_READ = 4_000
"""Characters of a message that are compared."""

_MAX_MATCHED = 100


@dataclass(frozen=True, slots=True)
class ErrorClass:
    """One row: a class of errors, its patterns, and the remedies."""

    category: str
    problem: str
    """The fault, as a clause after a colon."""
    suggestion: tuple[str, ...]
    """Three or four next steps for a person: short, concrete, possible now (ME-5, ME-17)."""
    patterns: tuple[str, ...] = ()
    """Regular expressions in lower case, each sufficient alone.

    Empty if only a reason decides.
    """
    later: tuple[str, ...] = ()
    """Further patterns, which version 1 of the rules did not have."""
    reasons: tuple[str, ...] = ()
    """Values of `RetryReason` that decide before any text."""
    alike_by: Literal["class", "target", "message", "fields"] = "class"
    """The criterion for similar errors of the class.

    It is the class alone, or the tool with its target, its message or its fields. The target is the path or host in the
    message, or else the arguments. Before version 3, the class alone decided there too.
    """
    matchers: tuple[re.Pattern[str], re.Pattern[str]] = field(init=False, repr=False, compare=False)
    """All patterns as one, for whole words: by version 1 of the rules, and by the current version."""

    def __post_init__(self) -> None:
        both = (self.patterns, (*self.patterns, *self.later))
        joined = (rf"\b(?:{'|'.join(each)})\b" if each else r"(?!)" for each in both)
        object.__setattr__(self, "matchers", tuple(map(re.compile, joined)))


class Match(NamedTuple):
    """The class of an error, and why it was chosen (ME-15)."""

    category: str
    matched: str
    """The words of the message, or the reason, that decided; empty for the last row."""


def classify(message: str, reason: str | None = None) -> str:
    """Return the class of any error (ME-3)."""
    return match_class(message, reason).category


def match_class(message: str, reason: str | None = None, rules: int = RULES) -> Match:
    """Return the class of an error, with the text or reason that decided it."""
    if reason:
        for row in ERROR_CLASSES:
            if reason in row.reasons:
                return Match(row.category, reason)
    text = _SPACES.sub(" ", message[:MAX_READ].lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))
    for row in ERROR_CLASSES:
        if found := row.matchers[rules > 1].search(text):
            return Match(row.category, plain(found[0], _MAX_MATCHED))
    return Match(ERROR_CLASSES[-1].category, "")


def class_named(category: str) -> ErrorClass:
    """Return the row of a class, or the last row for an unknown name."""
    return next((row for row in ERROR_CLASSES if row.category == category), ERROR_CLASSES[-1])


_SPACES = re.compile(r"[^\S\n]+")
_CANNOT = r"(?:cannot|can not|can't|could not|couldn't|unable to|failed to|failure to)"
_GAP = r"\b(?:[^.;\n]|\.\b){0,60}?\b"  # some words of the same sentence; `arial.ttf` does not end it
_BACKEND = r"(?:(?:tk|qt|gtk|wx|web|nb)\w{0,12}|\w{0,12}(?:agg|cairo)|macosx)"  # of matplotlib
_HTTP = r"(?:http(?:/\d(?:\.\d)?)?|http error|(?:http )?status(?:[ _]code)?|(?:http|error|response) code)"
_ABSENT = r"(?:not (?:be )?(?:found|available|installed)|unavailable|missing)"

ERROR_CLASSES: tuple[ErrorClass, ...] = (
    ErrorClass(
        "font_error",
        "a font is missing",
        (
            "Use a font that is there, such as DejaVu Sans, or the generic family sans-serif.",
            "Leave the font out of the request and take the tool's default.",
            "Install the missing font where the tool runs, and clear its font cache.",
        ),
        patterns=(
            "findfont",
            "font(?:config)? error",
            rf"fonts?{_GAP}{_ABSENT}",
            rf"{_CANNOT} (?:find|load|open) (?:the |a |any )?fonts?",
            r"missing (?:[\w-]{1,20} ){0,3}fonts?",
        ),
    ),
    ErrorClass(
        "module_error",
        "a module or package is missing",
        (
            "Install the missing package where the tool runs, for example with `pip install`.",
            "Check the package's name and version for a slip.",
            "Ask for a way that needs only packages that are already there.",
        ),
        patterns=(
            "no module named",
            "modulenotfounderror",
            "importerror",
            "cannot import name",
            rf"{_CANNOT} (?:find|load|import|resolve) (?:the )?(?:module|such file)",
            r"(?:module|package) (?:\S{1,60} )?(?:is )?not installed",
            "err_module_not_found|module not found|no package called",
        ),
    ),
    ErrorClass(
        "permission_error",
        "access was denied",
        (
            "Check which account the tool runs as, and what that account may read and change.",
            "Grant the access that is missing, or name a place the tool may use.",
            "Check that the tool's credentials are valid and have not run out.",
            "If the tool runs in a container, check its mounts and security policy.",
        ),
        patterns=(
            rf"(?:permissions?|access){_GAP}denied",
            "operation not permitted",
            "insufficient (?:permission|privilege)s?",
            "eacces|eperm",
            "permissionerror",
        ),
        alike_by="target",
    ),
    ErrorClass(
        "resource_error",
        "memory or disk space ran out",
        (
            "Ask for less at once: fewer rows, a smaller file, a shorter period.",
            "Free memory or disk space where the tool runs, then restart what holds it.",
            "Give the tool's worker more memory or a larger disk.",
        ),
        patterns=(
            "out of memory",
            "memoryerror",
            rf"{_CANNOT} allocate",
            "(?:insufficient|not enough) (?:memory|disk space|space on)",
            "oom(?:[- ]?kill(?:ed|er))?",
            "disk (?:is )?full",
            "no space left",
            "disk quota exceeded",
            "too many open files",
            "enomem|enospc|edquot|emfile",
        ),
    ),
    ErrorClass(
        "plotting_error",
        "the picture could not be drawn",
        (
            "Draw without a screen: choose a file backend such as Agg, and save the figure to a file.",
            "Ask for the numbers as a table, and draw them elsewhere.",
            "If a window is needed, set DISPLAY where the tool runs, or start a virtual display.",
        ),
        patterns=(
            rf"backend ['\"]?{_BACKEND}['\"]? (?:is |was )?{_ABSENT}",
            rf"(?:matplotlib|plotting|graphics|display|gui) backend{_GAP}{_ABSENT}",
            rf"{_CANNOT} load (?:the )?backend",
            rf"{_CANNOT} create (?:a |the |new |a new )?(?:figure|window|canvas)",
            r"display (?:environment )?(?:variable )?(?:is |was )?not (?:set|found|available)",
            rf"no \$?display|{_CANNOT} (?:open|connect to) (?:the )?(?:x )?display",
            r"cairo[. ]?error",
            r"agg (?:backend )?error",
            "tclerror",
        ),
    ),
    ErrorClass(
        "file_io_error",
        "a file could not be read or written",
        (
            "Check the path: whether the file is there, and spelt as it is called.",
            "Close whatever else holds the file open, then try again.",
            "Write under a different file name, in a different format or folder.",
            "Check that the disk is mounted for writing where the tool runs.",
        ),
        patterns=(
            rf"{_CANNOT} write (?:to )?(?:the |a )?(?:[\w-]{{1,20}} )?file",
            rf"(?:file{_GAP}|database is )locked",
            "read-?only file ?system|erofs",
        ),
        later=(
            "no such (?:file|directory|folder)",
            "filenotfounderror|enoent",
            rf"(?:file|directory|folder){_GAP}(?:not found|does(?: not|n't) exist)",
            rf"{_CANNOT} (?:open|read|find) (?:the |a |any )?(?:[\w-]{{1,20}} )?(?:file|directory|folder)",
        ),
        alike_by="target",
    ),
    ErrorClass(
        "network_error",
        "a service did not answer",
        (
            "Check that the service is up and can be reached from where the tool runs.",
            "Check its address, and the proxy, DNS and firewall between.",
            "Wait some minutes before the next try: it may be busy, or count calls.",
            "If it answers too slowly, ask for less in one call.",
        ),
        patterns=(
            "connection (?:was |is |has been )?(?:refused|reset|aborted|closed|lost|error)",
            "connect(?:ion)?(?:refused|reset|aborted)?error|brokenpipeerror",
            rf"{_CANNOT} (?:connect|reach (?:the )?(?:host|network|server|service))",
            "actively refused|remote end closed connection|server disconnected|broken pipe",
            "(?:network|host|server|destination)(?: host)? (?:is |was )?unreachable|no route to host",
            "e(?:connrefused|connreset|connaborted|hostunreach|netunreach|timedout|notfound|ai_again|pipe)",
            "(?:read|write|connect|connection|pool|socket)?time-?out(?:s|error|exception|expired)?",
            "timed[- ]?out",
            "deadline[ _]exceeded",
            "dns:? (?:[a-z]{1,20} )?(?:fail(?:ed|ures?)|errors?)",
            "name (?:or service not known|does not resolve)|nodename nor servname|getaddrinfo failed",
            "name ?resolution(?: ?(?:error|fail(?:ed|ure)))?|nxdomain|no such host",
            rf"{_CANNOT} resolve (?:the )?(?:host|hostname|address|proxy)",
            rf"{_HTTP}[ :=]{{0,3}}(?:429|50[234])",
            "too many requests|rate[- ]?limit(?:ed|s? (?:was |is )?(?:exceeded|reached))",
            "bad gateway",
            "service (?:is )?(?:temporarily )?unavailable",
            "ssl(?: connection| handshake)? ?error|certificate verify failed|tls handshake",
        ),
        later=("rate[- ]?limit(?:s|ing|error)?", "throttl(?:ed|ing)"),
        reasons=(RetryReason.TIMEOUT, RetryReason.RATE_LIMITED),
        alike_by="target",
    ),
    ErrorClass(
        "contract_error",
        "what was sent or returned does not fit the tool's schema",
        (
            "Give the values the tool asks for, above all for the fields named below.",
            "Compare the tool's schema with what it is sent and what it returns.",
            "Ask for something simpler, or for another tool.",
        ),
        reasons=(
            RetryReason.INVALID_ARGUMENTS,
            RetryReason.MISSING_FIELDS,
            RetryReason.MALFORMED_RESPONSE,
        ),
        alike_by="fields",
    ),
    ErrorClass(
        "generic_error",
        "the same error each time",
        (
            "Read the tool's message below; it often names the remedy.",
            "Ask differently: other values, a smaller step, another tool.",
            "Try the tool by hand with the same arguments, and look at its log.",
        ),
        alike_by="message",
    ),
)
"""Every class, in the order of comparison; the last matches what no other does."""
