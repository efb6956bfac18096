//! `uncopy completions`.

use clap_complete::Shell;

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy completions bash > ~/.local/share/bash-completion/completions/uncopy
  uncopy completions zsh > ~/.zfunc/_uncopy
  uncopy completions fish > ~/.config/fish/completions/uncopy.fish";

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// Shell that will read the script
    pub shell: Shell,
}
