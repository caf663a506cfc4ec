# SPDX-License-Identifier: GPL-2.0-only
"""Completion scripts for bash, zsh and fish, made from a `grammar.Command`.

Each is plain text without a date; the names of schedulers and workloads are written into it. bash splits words at `:`
and `=` where COMP_WORDBREAKS says so, and `scx_p2dq:performance` is one name: its script reads the line itself.

shtab 1.13 was tried on the lines of tests/cli/test_completion.py. It completes no `--option=value` in any of the three
shells, and in bash no name after a `:`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import asa
from asa.cli.grammar import Command, Kind, Option, Word

Names: TypeAlias = Mapping[Kind, tuple[str, ...]]

_BASH_BODY = r"""
_asa() {
    local line=${COMP_LINE:0:COMP_POINT} path="" current="" option="" rest="" word REPLY
    local -i count=0
    local -a words
    COMPREPLY=()
    read -a words <<<"$line"
    if [[ $line != *[[:space:]] ]]; then
        current=${words[-1]}
        unset 'words[-1]'
    fi
    for word in "${words[@]:1}"; do
        if [[ $option ]]; then
            option=""
        elif [[ ! $rest && $word == -- ]]; then
            rest=yes
        elif [[ ! $rest && $word == -* ]]; then
            _asa_values "$path $word"
            [[ $REPLY && $word != *=* ]] && option=$word
        else
            _asa_commands "$path"
            if [[ " $REPLY " == *" $word "* && $count == 0 ]]; then
                path="${path:+$path }$word"
            else
                count+=1
            fi
        fi
    done
    local before=""
    if [[ $current == *[\<\>]* || ${words[-1]} == *[\<\>] ]]; then
        REPLY=@file
    elif [[ $option ]]; then
        _asa_values "$path $option"
    elif [[ ! $rest && $current == --*=* ]]; then
        _asa_values "$path ${current%%=*}"
        [[ $COMP_WORDBREAKS == *=* ]] || before="${current%%=*}="
        current=${current#*=}
    elif [[ ! $rest && $current == -* ]]; then
        _asa_options "$path"
    else
        _asa_commands "$path"
        [[ $REPLY && $count == 0 ]] || _asa_values "$path #$count"
    fi
    case $REPLY in
        @free | "") return ;;
        @dir) compopt -o dirnames; return ;;
        @file) compopt -o default; return ;;
        @command)
            compopt -o default
            [[ $count == 0 ]] && COMPREPLY=($(compgen -c -- "$current"))
            return
            ;;
    esac
    local cut=""
    [[ $current == *:* && $COMP_WORDBREAKS == *:* ]] && cut=${current%"${current##*:}"}
    for word in $(compgen -W "$REPLY" -- "$current"); do
        COMPREPLY+=("$before${word#"$cut"}")
    done
}
complete -F _asa asa
"""

_FISH_BODY = r"""
function __asa_state
    set -l path
    set -l count 0
    set -l takes 0
    set -l rest 0
    set -l words (commandline -opc)
    set -e words[1]
    for word in $words
        if test $takes = 1
            set takes 0
            continue
        end
        if test $rest = 0
            switch $word
                case --
                    set rest 1
                    continue
                case '-*'
                    contains -- "$path $word" $__asa_valued
                    and set takes 1
                    continue
            end
        end
        set -l longer (string trim -- "$path $word")
        if test $count = 0; and contains -- $longer $__asa_commands
            set path $longer
        else
            set count (math $count + 1)
        end
    end
    echo "$path"
    echo $count
end

function __asa_in -a path
    set -l state (__asa_state)
    test "$state[1]" = "$path"
end

function __asa_word -a path count
    set -l state (__asa_state)
    test "$state[1]" = "$path"; and test $state[2] -eq $count
end

function __asa_words -a path count
    set -l state (__asa_state)
    test "$state[1]" = "$path"; and test $state[2] -ge $count
end
"""


def bash(top: Command, names: Names) -> str:
    """A script for bash 4.4 and later."""
    commands: list[tuple[str, str]] = []
    options: list[tuple[str, str]] = []
    values: list[tuple[str, str]] = []
    for command in top.all():
        path = " ".join(command.path[1:])
        if command.children:
            commands.append((f'"{path}"', " ".join(child.path[-1] for child in command.children)))
        options.append((f'"{path}"', " ".join(name for option in command.options for name in option.names)))
        for option in command.options:
            if option.word is not None:
                told = _bash_values(option.word, names)
                values.extend((f'"{path} {name}"', told) for name in option.names)
        for number, word in enumerate(command.words):
            pattern = f'"{path} #"*' if word.many else f'"{path} #{number}"'  # the last, so that all before it matched
            values.append((pattern, _bash_values(word, names)))
    functions = (("_asa_commands", commands), ("_asa_options", options), ("_asa_values", values))
    body = "\n".join(line for name, cases in functions for line in _bash_function(name, cases))
    return f"{_head('bash')}{body}{_BASH_BODY}"


def _bash_function(name: str, cases: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield f"{name}() {{"
    yield "    case $1 in"
    for pattern, reply in cases:
        yield f'        {pattern}) REPLY="{reply}" ;;'
    yield '        *) REPLY="" ;;'
    yield "    esac"
    yield "}"


def _bash_values(word: Word, names: Names) -> str:
    special = {Kind.FILE: "@file", Kind.FOLDER: "@dir", Kind.COMMAND: "@command"}
    return special.get(word.kind) or " ".join(_known(word, names)) or "@free"


def zsh(top: Command, names: Names) -> str:
    """A script for zsh with its completion system; to be autoloaded from fpath, or sourced."""
    lines = [f"#compdef asa\n{_head('zsh')}"]
    for kind, known in names.items():
        lines.append(f"_asa_kind_{kind.lower()}() {{\n  local -a known=({' '.join(map(_quoted, known))})")
        lines.append('  compadd "$@" -a known\n}')
    for command in reversed(tuple(top.all())):
        lines.extend(_zsh_command(command))
    lines.append('if [[ $funcstack[1] == _asa ]]; then\n  _asa "$@"\nelse\n  compdef _asa asa\nfi')
    return "\n".join(lines) + "\n"


def _zsh_command(command: Command) -> Iterator[str]:
    name = _zsh_name(command)
    specs = [_zsh_option(option) for option in command.options]
    if command.children:
        specs += ["'1: :->command'", "'*:: :->rest'"]
    for word in command.words:
        optional = "*:" if word.many else "::" if word.optional else ":"
        optional = "*:::" if word.kind is Kind.COMMAND else optional
        specs.append(_quoted(f"{optional}{_zsh_text(word.metavar)}:{_zsh_action(word)}"))
    yield f"{name}() {{"
    if not command.children:
        yield f"  _arguments -S {' '.join(specs)}"
        yield "}"
        return
    yield '  local curcontext="$curcontext" result=1 state state_descr'
    yield "  local -a line"
    yield "  local -A opt_args"
    yield f"  _arguments -C -S {' '.join(specs)} && result=0"
    yield "  case $state in"
    yield "    command)"
    yield "      local -a known=("
    for child in command.children:
        yield f"        {_quoted(child.path[-1] + ':' + child.help)}"
    yield "      )"
    yield "      _describe -t commands command known && result=0"
    yield "      ;;"
    yield "    rest)"
    yield "      case $line[1] in"
    for child in command.children:
        yield f"        {child.path[-1]}) {_zsh_name(child)} && result=0 ;;"
    yield "      esac"
    yield "      ;;"
    yield "  esac"
    yield "  return result"
    yield "}"


def _zsh_name(command: Command) -> str:
    return "_" + "_".join(command.path)


def _zsh_option(option: Option) -> str:
    text = f"[{_zsh_text(option.help)}]"
    value = "" if option.word is None else f":{_zsh_text(option.metavar)}:{_zsh_action(option.word)}"
    specs = [name + ("=" if value and name.startswith("--") else "") for name in option.names]
    if len(specs) == 1:
        return _quoted(specs[0] + text + value)
    return f"{_quoted('(' + ' '.join(option.names) + ')')}{{{','.join(specs)}}}{_quoted(text + value)}"


def _zsh_action(word: Word) -> str:
    if word.kind is Kind.CHOICE:
        return f"({' '.join(word.choices)})"
    actions = {Kind.FILE: "_files", Kind.FOLDER: "_files -/", Kind.COMMAND: "_normal", Kind.FREE: " "}
    return actions.get(word.kind) or f"_asa_kind_{word.kind.lower()}"


def _zsh_text(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\[]:" else letter for letter in text)


def fish(top: Command, names: Names) -> str:
    """A script for fish 3 and later."""
    every = tuple(top.all())
    valued = [
        f"{' '.join(command.path[1:])} {name}"
        for command in every
        for option in command.options
        if option.word is not None
        for name in option.names
    ]
    lines = [
        f"{_head('fish')}set -g __asa_commands {' '.join(_fish(' '.join(one.path[1:])) for one in every[1:])}",
        f"set -g __asa_valued {' '.join(map(_fish, valued))}{_FISH_BODY}",
        "complete -c asa -e\ncomplete -c asa -f",
    ]
    for command in every:
        path = _fish(" ".join(command.path[1:]))
        for child in command.children:
            condition = _fish(f"__asa_word {path} 0")
            lines.append(f"complete -c asa -n {condition} -a {child.path[-1]} -d {_fish(child.help)}")
        for option in command.options:
            flags = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = "" if option.word is None else f" {_fish_values(option.word, names)}"
            lines.append(f"complete -c asa -n {_fish(f'__asa_in {path}')} {flags}{value} -d {_fish(option.help)}")
        lines.extend(_fish_words(command, path, names))
    return "\n".join(lines) + "\n"


def _fish_words(command: Command, path: str, names: Names) -> Iterator[str]:
    for number, word in enumerate(command.words):
        here, later = _fish(f"__asa_word {path} {number}"), _fish(f"__asa_words {path} {number + 1}")
        if word.kind is Kind.COMMAND:
            yield f"complete -c asa -n {here} -a '(__fish_complete_command)'"
            yield f"complete -c asa -n {later} -F"
            continue
        told = _fish_values(word, names).removeprefix("-r ")
        yield f"complete -c asa -n {here} {told}"
        if word.many:
            yield f"complete -c asa -n {later} {told}"


def _fish_values(word: Word, names: Names) -> str:
    if word.kind is Kind.FILE:
        return "-r -F"
    if word.kind is Kind.FOLDER:
        return "-x -a '(__fish_complete_directories)'"
    known = _known(word, names)
    return f"-x -a {_fish(' '.join(known))}" if known else "-x"


def _fish(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _known(word: Word, names: Names) -> tuple[str, ...]:
    return word.choices if word.kind is Kind.CHOICE else names.get(word.kind, ())


def _quoted(text: str) -> str:
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"


def _head(shell: str) -> str:
    return f"# Completion of asa {asa.__version__} for {shell}; made by `asa completion {shell}`.\n"
