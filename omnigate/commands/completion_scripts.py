"""Scripts that complete the command line in bash and in zsh.

Both hold a table of all commands: the words that may come next, and which options take a value. A
few lines of shell find the place in it. Values that are not known, such as names of keys, are left
to who types; nothing is asked of any plane while somebody types.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from omnigate.commands.spelling import Argument, Command

_BASH_HEAD = """\
# Completion of omnigate for bash; printed by: omnigate completion bash

_omnigate() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command="" place=0
    local word skip="" i words="" path=""
    COMPREPLY=()
    # A sign of equality is a word of its own to bash.
    [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}
    [[ $cur == = ]] && cur=""
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == = ]]; then skip=1; continue; fi
        if [[ -n $skip ]]; then skip=""; continue; fi
        case $word in
            -*) case "$command:$word" in
"""

_BASH_MIDDLE = """\
                esac ;;
            *) case "$command:$word" in
"""

_BASH_AFTER_COMMANDS = """\
                   *) place=$((place + 1)) ;;
               esac ;;
        esac
    done
    case "$command:$prev" in
"""

_BASH_TAIL = """\
    esac
    case $path in
        file) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
        directory) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
        *) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur"); return ;;
    esac
    compopt -o filenames 2>/dev/null
}

complete -F _omnigate omnigate
"""


def bash_script(program: Command) -> str:
    """Return the script for bash."""
    lines = [_BASH_HEAD]
    commands = list(program.walk())
    for command in commands:
        valued = [n for option in command.options if option.word for n in option.names]
        if valued:
            lines.append(f"                {_patterns(command, valued)}) skip=1 ;;\n")
    lines.append(_BASH_MIDDLE)
    for command in commands:
        if command.path:
            above = " ".join(command.path[:-1])
            name = " ".join(command.path)
            lines.append(f'                   "{above}:{command.path[-1]}") command="{name}" ;;\n')
    lines.append(_BASH_AFTER_COMMANDS)
    for command in commands:
        for option in command.options:
            if option.word:
                lines.append(
                    f"        {_patterns(command, option.names)}) {_bash_value(option)} ;;\n"
                )
    lines.append('        *) case "$command:$place" in\n')
    for command in commands:
        lines.extend(_bash_places(command))
    lines += ["           esac ;;\n", _BASH_TAIL]
    return "".join(lines)


def _patterns(command: Command, words: Iterable[str]) -> str:
    """What a case matches: the command and one of some words."""
    path = " ".join(command.path)
    return "|".join(f'"{path}:{word}"' for word in words)


def _bash_value(argument: Argument) -> str:
    """What may stand for a value."""
    if argument.path:
        return f"path={argument.path}"
    if argument.choices:
        return f'words="{" ".join(argument.choices)}"'
    # Nothing is known of it, and nothing else may stand there.
    return "return"


def _bash_places(command: Command) -> Iterable[str]:
    """What may come next in a command, by how many arguments have their place already."""
    path = " ".join(command.path)
    options = " ".join(name for option in command.options for name in option.names)
    for place, argument in enumerate(command.places):
        other = (
            f"path={argument.path}" if argument.path else f'words="{" ".join(argument.choices)}"'
        )
        yield _bash_branch(f'"{path}:{place}"', options, other)
    children = " ".join(child.path[-1] for child in command.children)
    yield _bash_branch(f'"{path}:"*', options, f'words="{children or options}"')


def _bash_branch(pattern: str, options: str, other: str) -> str:
    """Options where a sign of one has been typed, else something other."""
    sign = "[[ $cur == -* ]]"
    return f'               {pattern}) if {sign}; then words="{options}"; else {other}; fi ;;\n'


_ZSH_HEAD = """\
#compdef omnigate
# Completion of omnigate for zsh; printed by: omnigate completion zsh

"""

_ZSH_TAIL = """\
# Read as a file of a function it is to complete at once; by eval it is to be known from now on.
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _omnigate "$@"
else
    compdef _omnigate omnigate
fi
"""


def zsh_script(program: Command) -> str:
    """Return the script for zsh."""
    return _ZSH_HEAD + "".join(map(_zsh_function, program.walk())) + _ZSH_TAIL


def _zsh_function(command: Command) -> str:
    """The function that completes behind the words of one command."""
    name = _zsh_name(command)
    specs = [spec for option in command.options for spec in _zsh_options(option)]
    if not command.children:
        specs += [_zsh_place(n, place) for n, place in zip(count(1), command.places, strict=False)]
        return f"{name}() {{\n    _arguments -S{_joined(specs)}\n}}\n\n"
    specs += ["1: :->command", "*:: :->words"]
    told = " \\\n            ".join(
        _zsh_quoted(f"{child.path[-1]}:{child.help}") for child in command.children
    )
    branches = "\n".join(
        f"                {child.path[-1]}) {_zsh_name(child)} ;;" for child in command.children
    )
    return (
        f"{name}() {{\n"
        "    local state line context\n    local -A opt_args\n"
        f"    _arguments -C -S{_joined(specs)} && return\n"
        "    case $state in\n"
        "        command)\n"
        f"            local -a commands=( \\\n            {told} )\n"
        "            _describe -t commands command commands ;;\n"
        "        words)\n"
        "            case $line[1] in\n"
        f"{branches}\n"
        "            esac ;;\n"
        "    esac\n}\n\n"
    )


def _zsh_name(command: Command) -> str:
    return "_" + "_".join(("omnigate", *command.path)).replace("-", "_")


def _joined(specs: Iterable[str]) -> str:
    return "".join(f" \\\n        {_zsh_quoted(spec)}" for spec in specs)


def _zsh_options(option: Argument) -> Iterable[str]:
    """What ``_arguments`` is told of an option, by each of its names."""
    others = " ".join(option.names)
    text = _zsh_text(option.help)
    for name in option.names:
        sign = "=" if option.word and name.startswith("--") else ""
        value = f":{_zsh_text(option.word)}:{_zsh_action(option)}" if option.word else ""
        yield f"({others}){name}{sign}[{text}]{value}"


def _zsh_place(place: int, argument: Argument) -> str:
    mark = "::" if argument.optional else ":"
    return f"{place}{mark}{_zsh_text(argument.word)}:{_zsh_action(argument)}"


def _zsh_action(argument: Argument) -> str:
    if argument.path:
        return "_files -/" if argument.path == "directory" else "_files"
    return f"({' '.join(argument.choices)})" if argument.choices else " "


def _zsh_text(text: str) -> str:
    """A text within a spec, where brackets and colons part it."""
    for sign in "\\[]:":
        text = text.replace(sign, f"\\{sign}")
    return text


def _zsh_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
