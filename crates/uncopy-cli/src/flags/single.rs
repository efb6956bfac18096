//! `uncopy -s SRC -d DST`: one file, without a subcommand.

use std::path::PathBuf;

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::copy::CopyArgs;
use super::operand::path_parser;
use super::tree::{RETRIES, TreeArgs};

/// Forms of the command line.
pub(crate) const USAGE: &str = "\
uncopy <COMMAND>
       uncopy -s SRC -d DST [OPTIONS]";

/// One file, copied and verified.
#[derive(Debug, clap::Args)]
pub(crate) struct SingleArgs {
    /// File to copy
    #[arg(short, long, value_name = "SRC", value_parser = path_parser(), help_heading = SINGLE)]
    pub source: PathBuf,

    /// File or directory to copy to
    #[arg(short, long, value_name = "DST", value_parser = path_parser(), help_heading = SINGLE)]
    pub dest: PathBuf,

    /// Try every cheaper mechanism and fall back automatically (the default)
    #[arg(long, help_heading = SINGLE)]
    pub zero_copy: bool,

    /// Use only read and write, through the memory of this program
    #[arg(long, conflicts_with = "zero_copy", help_heading = SINGLE)]
    pub no_zero_copy: bool,

    /// Do not verify: skip reading both files back and comparing digests
    #[arg(long, help_heading = SINGLE)]
    pub no_verify: bool,

    /// Print which mechanism copied the file, and why no cheaper one did
    #[arg(short, long, help_heading = SINGLE)]
    pub verbose: bool,
}

const SINGLE: &str = "One file, verified (`uncopy cp` has more options)";

impl SingleArgs {
    /// Returns the flags of `uncopy cp` that mean the same.
    pub(crate) fn into_copy(self) -> CopyArgs {
        CopyArgs {
            source: vec![self.source],
            dest: Some(self.dest),
            zero_copy: self.zero_copy,
            no_zero_copy: self.no_zero_copy,
            no_verify: self.no_verify,
            verbose: self.verbose,
            single: true,
            tree: TreeArgs { retries: RETRIES, ..TreeArgs::default() },
            ..CopyArgs::default()
        }
    }

    /// Whether a flag of `uncopy cp` is on this command line.
    pub(crate) fn is_given(matches: &ArgMatches, flag: &str) -> bool {
        let known = matches.try_contains_id(flag).is_ok();
        known && matches.value_source(flag) == Some(ValueSource::CommandLine)
    }
}
