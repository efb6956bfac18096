//! Flags of `uncopy serve`.

use std::path::PathBuf;

use clap::ValueHint;

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples (one line of ~/.ssh/authorized_keys each):
  restrict,command=\"uncopy serve --stdio --restrict /srv/in\" ssh-ed25519 AAAA...
  restrict,command=\"uncopy serve --stdio --restrict /srv/out --read-only\" ssh-ed25519 AAAA...";

/// Be the other end of `uncopy cp` on another machine, which starts this command by ssh.
///
/// The machine where the command line was typed sends what is to be shown or done; file names do not travel in
/// the remote shell's line. `uncopy help remote` says what each end trusts.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Speak over standard input and output, as a remote shell connects them
    #[arg(long, required = true)]
    pub stdio: bool,

    /// Show and write nothing outside DIR, at which relative paths begin
    ///
    /// A path that leads out, by a slash at its beginning, by `..` or by a link, is refused. On a kernel without
    /// Landlock nothing is shown or written.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub restrict: Option<PathBuf>,

    /// Write nothing: copies from this machine alone
    #[arg(long)]
    pub read_only: bool,
}
