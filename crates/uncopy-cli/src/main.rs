//! The program; everything is in the library beside it, so that xtask can reach the flags.

use std::process::ExitCode;

fn main() -> ExitCode {
    uncopy_cli::run(std::env::args_os()).into()
}
