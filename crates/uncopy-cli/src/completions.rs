//! `uncopy completions`: the scripts of `clap_complete`, with values offered only where the parser takes them.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use clap::{Arg, Command};
use clap_complete::Shell;

use crate::exit::Exit;
use crate::flags::completed_command;
use crate::flags::completions::CompletionsArgs;
use crate::report;

/// Stands in descriptions before those of flags whose value comes only behind `=`: of private use, in no text.
const MARK: char = '\u{e000}';

/// Prints the script for a shell.
pub(crate) fn run(flags: &CompletionsArgs) -> Result<Exit, clap::Error> {
    Ok(match io::stdout().write_all(script(flags.shell).as_bytes()) {
        Ok(()) => Exit::Success,
        Err(error) => report::output_failed(&error),
    })
}

/// Writes the script for a shell.
#[must_use]
pub fn script(shell: Shell) -> String {
    let mut command = completed_command();
    command.build();
    match shell {
        Shell::Bash => format!("{}{}", generated(shell, command.clone()), words_of_bash(&command)),
        Shell::Zsh => {
            let script = generated(shell, marked(command));
            // `=-` and `-` after a name: the value is in the same word.
            script.replace(&format!("=[{MARK}"), "=-[").replace(&format!("+[{MARK}"), "-[")
        }
        Shell::Fish => {
            let script = generated(shell, marked(command));
            // Without `-r` a value is offered behind `=` alone.
            let line = |line: &str| match line.contains(MARK) {
                true => line.replacen("' -r", "'", 1).replace(MARK, "") + "\n",
                false => format!("{line}\n"),
            };
            script.lines().map(line).collect()
        }
        shell => generated(shell, command),
    }
}

fn generated(shell: Shell, mut command: Command) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "uncopy", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Marks the flags of a command and of its subcommands whose value comes only behind `=`.
fn marked(command: Command) -> Command {
    let mark = |flag: Arg| match (flag.is_require_equals_set(), flag.get_help()) {
        (true, Some(help)) => {
            let help = format!("{MARK}{help}");
            flag.help(help)
        }
        _ => flag,
    };
    command.mut_args(mark).mut_subcommands(marked)
}

/// Writes the function that bash calls. It calls the generated one, which knows nothing of words that bash splits at `=`,
/// and takes a word after any flag for its value.
fn words_of_bash(command: &Command) -> String {
    let mut cases = String::new();
    for subcommand in command.get_subcommands() {
        let _ = writeln!(
            cases,
            "        {}) equals=\"{}\" ;;",
            subcommand.get_name(),
            equals(subcommand)
        );
    }
    let own = command.get_arguments().flat_map(names).collect::<Vec<_>>().join(" ");
    let commands = command.get_subcommands().map(Command::get_name).collect::<Vec<_>>().join(" ");
    format!(
        r#"
_uncopy_words() {{
    local cur="$2" prev="$3" joined="" equals word commands=""
    local -a kept=()
    if [[ "${{prev}}" == "=" ]]; then
        joined=1
        prev="${{COMP_WORDS[COMP_CWORD-2]}}"
    elif [[ "${{COMP_WORDS[COMP_CWORD]}}" == "=" ]]; then
        joined=1
        cur=""
        prev="${{COMP_WORDS[COMP_CWORD-1]}}"
    fi
    # Flags that take a value only behind =.
    case "${{COMP_WORDS[1]}}" in
{cases}        *)
            equals="{own}"
            # No command follows a flag.
            [[ "${{COMP_CWORD}}" -eq 1 ]] || commands=" {commands} "
            ;;
    esac
    if [[ -z "${{joined}}" && -n "${{prev}}" && " ${{equals}} " == *" ${{prev}} "* ]]; then
        prev=""
    fi
    _uncopy "$1" "${{cur}}" "${{prev}}"
    # Where no flag begins, files are offered.
    if [[ "${{cur}}" != -* ]]; then
        for word in "${{COMPREPLY[@]}}"; do
            [[ "${{word}}" == -* || "${{commands}}" == *" ${{word}} "* ]] || kept+=("${{word}}")
        done
        COMPREPLY=("${{kept[@]}}")
    fi
}}

if [[ "${{BASH_VERSINFO[0]}}" -eq 4 && "${{BASH_VERSINFO[1]}}" -ge 4 || "${{BASH_VERSINFO[0]}}" -gt 4 ]]; then
    complete -F _uncopy_words -o nosort -o bashdefault -o default uncopy
else
    complete -F _uncopy_words -o bashdefault -o default uncopy
fi
"#
    )
}

/// Names of the flags of a command, and of those below it, whose value comes only behind `=`.
fn equals(command: &Command) -> String {
    let own = command.get_arguments().flat_map(names);
    let below = command.get_subcommands().map(equals).filter(|names| !names.is_empty());
    own.chain(below).collect::<Vec<_>>().join(" ")
}

fn names(flag: &Arg) -> Vec<String> {
    if !flag.is_require_equals_set() {
        return Vec::new();
    }
    let long = flag.get_long_and_visible_aliases().unwrap_or_default();
    let short = flag.get_short_and_visible_aliases().unwrap_or_default();
    let long = long.into_iter().map(|name| format!("--{name}"));
    long.chain(short.into_iter().map(|letter| format!("-{letter}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values were offered as a word of their own, which the parser takes for a path.
    #[test]
    fn values_behind_an_equals_sign_are_offered_there() {
        let fish = script(Shell::Fish);
        let line = |flag: &str| {
            let is_of = |line: &&str| line.contains("subcommand cp\"") && line.contains(flag);
            fish.lines().find(is_of).unwrap_or_else(|| panic!("{flag}")).to_owned()
        };
        for flag in ["-l verify ", "-s p -l preserve ", "-l reflink ", "-l backup ", "-l digest "] {
            let line = line(flag);
            assert!(!line.contains("' -r") && line.contains(" -a "), "{line}");
        }
        assert!(line("-l method ").contains("' -r -f -a "), "{fish}");

        let zsh = script(Shell::Zsh);
        for found in
            ["--verify=-[", "'*-p-[", "--reflink=-[", "--backup=-[", "--method=[", "'-p+[Port"]
        {
            assert!(zsh.contains(found), "{found}: {zsh}");
        }
        for script in [fish, zsh, script(Shell::Bash)] {
            assert!(!script.contains(MARK));
        }
    }

    /// The words of bash are told apart by the first subcommand alone.
    #[test]
    fn flags_of_one_name_below_a_subcommand_are_alike() {
        fn below(command: &Command, all: &mut Vec<(String, bool)>) {
            for flag in command.get_arguments() {
                let is_equals = flag.is_require_equals_set();
                all.extend(flag.get_long().map(|name| (name.to_owned(), is_equals)));
            }
            command.get_subcommands().for_each(|subcommand| below(subcommand, all));
        }
        let mut command = completed_command();
        command.build();
        for subcommand in command.get_subcommands() {
            let mut all = Vec::new();
            below(subcommand, &mut all);
            for (name, is_equals) in &all {
                let other = (name.clone(), !is_equals);
                assert!(!all.contains(&other), "{}: --{name}", subcommand.get_name());
            }
        }
    }
}
