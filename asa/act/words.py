# SPDX-License-Identifier: GPL-2.0-only
"""Out of all that a scheduler printed, the line that tells why it ended: what told the reason, not what came last.

Knows what the Rust schedulers print (panics of all ages of Rust, the chain of causes of an `Error:`), the C schedulers
(`EXIT: reason (detail)`, `[SCX_BUG]`, getopt, assert), libbpf with the verifier's log, sanitisers and the C library.
Reads texts only and does no I/O. All of them are foreign: what comes out is one printable line of bounded length.
"""

import re
from collections.abc import Iterator, Sequence

LONGEST = 300
"""Characters that a status shows."""

_LONGEST_LINE = 8 * LONGEST
_MOST_LINES = 30  # of a panic's message; between an error and the causes that belong to it
_TERMINAL = re.compile(r"\x1b(?:\[[0-9;?:]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")  # colours, titles
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)"
# env_logger `[2026-01-01T10:00:00Z ERROR scx_rusty] `, simplelog `10:00:00 [ERROR] `, tracing `2026-... ERROR scx: `,
# journald `Jan 01 10:00:00 host scx[1]: `
_STAMP = re.compile(
    r"^(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\s\]]*\]?\s+|\[?\d\d:\d\d:\d\d[\d.,]*\]?\s+|\[\s*\d+\.\d+\]\s+"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ [^\s:]+\[\d+\]:\s+)+"
)
_LOGGED = re.compile(rf"^\[?\(?({_LEVEL})\)?(?:\s+[\w:.\-]+\]|\])?:?\s+", re.IGNORECASE)
_LOGGED_LIBBPF = re.compile(
    rf"^\[?\(?{_LEVEL}\b[^']{{0,80}}?(?=libbpf: )", re.IGNORECASE
)  # the Rust schedulers' logger
_LOUD = ("ERROR", "CRITICAL", "FATAL")

_PANIC = re.compile(r"^thread '.*?'(?: \(\d+\))? panicked at (.*)$|^panicked at (.*)$")
_OLD_PANIC = re.compile(r"^'(.*)', ([^\s']+:\d+(?::\d+)?)$", re.DOTALL)  # before Rust 1.73: 'message', file:line:column
_PLACE = re.compile(r"^([^\s']+:\d+(?::\d+)?):?(?:\s+(.*))?$")
_AFTER_PANIC = re.compile(
    r"^(note: |stack backtrace:|thread '|panicked at |Error:|EXIT: |libbpf: |fatal runtime error|thread caused )"
)
_SECOND_HAND = (
    *("Any { .. }", "PoisonError", "RecvError", "SendError", "a scoped thread panicked", "JoinError"),
    *("panic in a destructor during cleanup", "panic in a function that cannot unwind"),
)
_CHAIN_ENDS = re.compile(r"^([Ss]tack backtrace:|Location:|Backtrace|note: |EXIT: |libbpf: |Error: |thread ')")
_NEXT_LOGGED = re.compile(rf"^\[?\(?{_LEVEL}\b[\]) ]")
_NUMBERED = re.compile(r"^\d+:\s+")
_DUMP = re.compile(r"^DEBUG DUMP$")
_RULER = re.compile(r"^[=\-*#]{8,}$")
_TRIGGERED = re.compile(r" triggered exit kind \d+:$")  # what a dump begins with; the reason is the next line
_PROCESSED = re.compile(r"^processed \d+ insns ")
_LOG_BEGINS = "-- BEGIN PROG LOAD LOG --"
_VERIFIER_TAIL = re.compile(
    r"^(processed \d+ insns |verification time |stack depth |max_states|.*-- END PROG LOAD LOG --)"
)
_LIBBPF = re.compile(r"^libbpf: ")
_LIBBPF_FAULT = re.compile(
    r"not found|fail|error|invalid|can't|cannot|couldn't|could not|unable|unsupported|not supported|unknown|unrecogni"
    r"|mismatch|incompatible|no such|denied|missing|corrupt|malformed|: -\d+$",
    re.IGNORECASE,
)
_LIBBPF_GENERAL = re.compile(  # follow what told the reason
    r"failed to load (object|BPF skeleton)|: failed to load: -?\w+$|BPF program load failed|failed to auto-?attach"
    r"|failed to attach|failed to (open|create) (object|BPF skeleton)"
)
_LIBBPF_HARMLESS = re.compile(r"skipping|will be ignored|falling back")
_CRASH = re.compile(  # sanitisers, assert(3), glibc, Rust's runtime, ld.so, getopt(3)
    r"==\d+==\s*ERROR: \w*Sanitizer|runtime error: |[Aa]ssertion .*failed|\*\*\* .* \*\*\*|fatal runtime error"
    r"|has overflowed its stack|memory allocation of \d+ bytes failed|double free or corruption|^(malloc|free|realloc|"
    r"munmap_chunk|corrupted)\b.*(: |\()|Segmentation fault|^Bus error|error while loading shared libraries"
    r"|^\S+: (invalid|unrecogni[sz]ed|unknown) option|^\S+: option .* (requires|is ambiguous)|^Out of memory"
)
_NOISE = re.compile(
    r"^(note: |help: |tip: |stack backtrace:|Caused by:|For more information|Usage:|Aborted\b|SUMMARY: |at \S+:\d+"
    r"|\d+: 0x|\d+:\s+\S+$|#\d+ 0x|=+$|-+$|\.\.\.$|Location:|Backtrace omitted|Run with )",
    re.IGNORECASE,
)


def one_line(text: str) -> str:
    """Foreign text as one printable line, cut to a length that fits a status."""
    bare = _TERMINAL.sub("", text[:_LONGEST_LINE])
    return " ".join("".join(c if c.isprintable() else " " for c in bare).split())[:LONGEST]


def last_words(text: str) -> str:
    """The line that tells why it ended, else the last that is not about lines before it; "" when it said nothing."""
    lines = _lines(text)
    told = _told(lines)
    if told:
        return told
    said = [line.strip() for line in lines if line.strip()]
    return one_line(next((line for line in reversed(said) if not _NOISE.match(line)), said[-1] if said else ""))


def complaint(text: str) -> str:
    """The same where it tells of a fault of the program's own; "" where nothing does."""
    told = _told(_lines(text))
    return "" if told.startswith("EXIT: ") else told


def _lines(text: str) -> list[str]:
    """Without colours and time stamps; the inside of a dump is left out but for its reason."""
    lines: list[str] = []
    inside = rulers = 0
    for raw in re.split(r"[\r\n]+(?=\n)|\r\n|\n|\r", _TERMINAL.sub("", text)):
        line = _LOGGED_LIBBPF.sub("", _STAMP.sub("", raw[:_LONGEST_LINE].expandtabs(4).rstrip()))
        if _DUMP.match(line.strip()):
            inside, rulers = 1, 0
        elif inside:
            rulers += bool(_RULER.match(line.strip()))
            if rulers == 2:
                inside = 0
            elif line.startswith(("EXIT: ", "Error: EXIT: ")):  # a dump that was cut short
                inside = 0
                lines.append(line)
            elif _TRIGGERED.search(line):
                inside = 2
            elif inside == 2:
                lines.append(f"EXIT: {line.strip()}")
                inside = 1
        else:
            lines.append(line)
    return lines


def _told(lines: Sequence[str]) -> str:
    exit_at = max((place for place, line in enumerate(lines) if _exit_in(line)), default=-1)
    panic = _panic(lines)
    if panic is not None and (panic[0] > exit_at or not _is_fault(lines[exit_at])):
        return one_line(panic[1])
    error_at = max((place for place, line in enumerate(lines) if _is_error(line) and not _exit_in(line)), default=-1)
    if exit_at > error_at:
        line = lines[exit_at].strip()
        return one_line(line[line.index("Error: EXIT: ") if "Error: EXIT: " in line else line.index("EXIT: ") :])
    bug = next((place for place, line in enumerate(lines) if "[SCX_BUG]" in line and place > exit_at), None)
    crash = next((line.strip() for line in lines if _CRASH.search(line.strip())), "")
    libbpf = _libbpf(lines[exit_at + 1 :])
    if bug is not None:
        message = next((line.strip() for line in lines[bug + 1 :] if line.strip()), "")
        said = f"{lines[bug].strip()} {message}"
    elif error_at >= 0:
        said = _error(lines, error_at)
    else:
        said = crash or _loud(lines)
    if not libbpf or said in libbpf:
        return one_line(libbpf or said)
    return one_line(f"{libbpf[: LONGEST - 100]}; {said}")


def _exit_in(line: str) -> bool:
    return line.lstrip().startswith(("EXIT: ", "Error: EXIT: ", "error: EXIT: ")) or " EXIT: " in line


def _is_fault(line: str) -> bool:
    return "Error: EXIT:" in line or any(word in line for word in ("error", "stall", "sysrq"))


def _is_error(line: str) -> bool:
    return line.startswith(("Error:", "error:", "Error[", "error[", "ERROR:", "FATAL:", "fatal:"))


def _panic(lines: Sequence[str]) -> tuple[int, str] | None:
    """Where and how it panicked: the last time, unless that tells only of another thread that did so before."""
    found = [(place, _panic_at(lines, place)) for place, line in enumerate(lines) if _PANIC.match(line.strip())]
    own = [one for one in found if not any(word in one[1] for word in _SECOND_HAND)]
    best = own or found
    return best[-1] if best else None


def _panic_at(lines: Sequence[str], start: int) -> str:
    match = _PANIC.match(lines[start].strip())
    head = (match[1] or match[2] or "") if match else ""
    more = list(_message(lines[start + 1 : start + 1 + _MOST_LINES]))
    if head.startswith("'"):
        whole = "\n".join([head, *more])
        for end in range(1, len(whole.split("\n")) + 1):
            old = _OLD_PANIC.match("\n".join(whole.split("\n")[:end]))
            if old:
                return f"panicked at {old[2]}: {old[1]}"
        return f"panicked: {whole}"
    place = _PLACE.match(head)
    if place is None:
        return f"panicked at {head} {' '.join(more)}".rstrip()
    said = " ".join([place[2] or "", *more]).strip()
    return f"panicked at {place[1]}: {said}" if said else f"panicked at {place[1]}"


def _message(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if _AFTER_PANIC.match(line.strip()):
            return
        if line.strip():
            yield line.strip()


def _error(lines: Sequence[str], start: int) -> str:
    """An `Error:` with its chain of causes: the first, the last, and those between where there is room."""
    head = lines[start].strip()
    after = [line.strip() for line in lines[start + 1 :]]
    cause_at = next((place for place, text in enumerate(after[:_MOST_LINES]) if text.startswith("Caused by:")), None)
    if cause_at is not None:
        chain = _chain([after[cause_at].removeprefix("Caused by:").strip(), *after[cause_at + 1 :]])
    elif head.endswith(":"):  # what was to be said stands below: color-eyre's chain, clap's list
        chain = _chain(after)
    else:
        chain = []
    whole = ": ".join([head.rstrip(": ") if chain else head, *chain])
    return whole if len(whole) <= LONGEST or len(chain) < 2 else f"{head.rstrip(': ')}: {chain[-1]}"


def _chain(texts: Sequence[str]) -> list[str]:
    """Causes: numbered ones, each of which may go on in further lines, or else a single one."""
    chain: list[str] = []
    for text in texts:
        if _CHAIN_ENDS.match(text) or _NEXT_LOGGED.match(text) or (chain and not text):
            break
        if text and (not chain or _NUMBERED.match(text)):
            chain.append(_NUMBERED.sub("", text))
        elif text:
            chain[-1] += f" {text}"
    return chain


def _libbpf(lines: Sequence[str]) -> str:
    """The line of libbpf that told why a program cannot be loaded; of the verifier's log its last but for figures."""
    found = general = harmless = ""
    program = ""
    for place, line in enumerate(lines):
        text = line.strip()
        if _LOG_BEGINS in text:
            program = text.partition(_LOG_BEGINS)[0].strip()
        elif _LIBBPF.match(text) and _LIBBPF_FAULT.search(text):
            if _LIBBPF_HARMLESS.search(text):
                harmless = text
            elif _LIBBPF_GENERAL.search(text):
                general = general if "program load failed" in general else text  # names program and error
            else:
                found = text
        if _PROCESSED.match(text):
            said = next((one.strip() for one in reversed(lines[:place]) if _is_verdict(one.strip())), "")
            if said:
                found = f"{program or 'verifier:'} {said}".strip()
                program = ""
    return found or general or harmless


def _is_verdict(text: str) -> bool:
    return bool(text) and not _VERIFIER_TAIL.match(text) and _LOG_BEGINS not in text


def _loud(lines: Sequence[str]) -> str:
    """The last line that was logged as an error, with its causes."""
    for place, line in reversed(list(enumerate(lines))):
        match = _LOGGED.match(line.strip())
        if match and match[1].upper() in _LOUD:
            return _error([line.strip()[match.end() :], *lines[place + 1 :]], 0)
    return ""
