//! `cargo xtask compare`: every suite side by side with its peers, in one harness.

mod brief;
pub(crate) mod case;
pub(crate) mod channel;
mod copy;
mod fidl;
pub(crate) mod host;
mod machine;
pub(crate) mod memory;
mod message;
mod metric;
mod python;
pub(crate) mod remote;
pub(crate) mod report;
mod rounds;
pub(crate) mod row;
mod send;
mod timing;
pub(crate) mod tree;
pub(crate) mod unit;
mod verdict;
mod walk;
mod zx;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::peers::{self, Peer};
use crate::workspace;
use case::{Case, Suite};
use host::Host;
use report::{Report, Surroundings};

/// Arguments of `cargo xtask compare`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The suite.
    suite: SuiteName,
    /// Print JSON Lines: one object for each figure.
    #[arg(long)]
    json: bool,
    /// Two rounds of small files or few messages, to see that everything runs; judges no target.
    #[arg(long)]
    quick: bool,
    /// Rounds of each case, instead of 3 to 41 by how long a run takes and what is judged.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Only cases whose name contains this; may be repeated.
    #[arg(long, value_name = "CASE")]
    only: Vec<String>,
    /// Say which cases there are, and run none.
    #[arg(long)]
    list: bool,
    /// Where to copy: a directory on ext4 directly on a device, for the reference [default:
    /// target/compare]
    #[arg(long)]
    dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum SuiteName {
    /// One file to another.
    Copy,
    /// The default beside each mechanism alone, by size, filesystem and cache.
    Mechanisms,
    /// Whole trees.
    Tree,
    /// Messages, within a process and between two.
    Channel,
    /// Values to messages and back.
    Fidl,
    /// The Python package beside the standard library.
    Python,
    /// Files over sockets, and copies between two machines.
    Remote,
    /// Datagrams to a device that drops them without copying.
    Send,
    /// Plans, units of work, and workers that do them.
    Unit,
    /// The C library against the Rust library, and both against published figures of Zircon.
    Zx,
}

impl SuiteName {
    /// Whom it compares with.
    fn peers(self) -> &'static [Peer] {
        match self {
            SuiteName::Copy => &peers::COPIERS,
            SuiteName::Tree => &peers::TREE_COPIERS,
            SuiteName::Channel => &peers::CHANNELS,
            SuiteName::Fidl => &peers::CODECS,
            SuiteName::Remote => &peers::REMOTE_COPIERS,
            SuiteName::Mechanisms
            | SuiteName::Python
            | SuiteName::Send
            | SuiteName::Unit
            | SuiteName::Zx => &[],
        }
    }
}

/// Runs a suite.
///
/// # Errors
/// If it cannot be measured here. A target that is missed is a row and no error.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    workspace::continue_optimised()?;
    match arguments.suite {
        SuiteName::Copy | SuiteName::Tree | SuiteName::Remote | SuiteName::Unit => {
            drop(workspace::build_release("uncopy-cli", "uncopy")?);
        }
        SuiteName::Mechanisms | SuiteName::Channel | SuiteName::Fidl | SuiteName::Send => {}
        SuiteName::Python => crate::python::install_optimised()?,
        SuiteName::Zx => zx::build()?,
    }
    let directory = match &arguments.dir {
        Some(directory) => std::path::absolute(directory)?,
        None => workspace::target_directory().join("compare"),
    };
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let compared = || match arguments.suite {
        SuiteName::Send => send::on_a_network(|| compare(arguments, None)),
        SuiteName::Remote => remote::beside_another_machine(|far| compare(arguments, far)),
        SuiteName::Copy
        | SuiteName::Mechanisms
        | SuiteName::Tree
        | SuiteName::Channel
        | SuiteName::Fidl
        | SuiteName::Python
        | SuiteName::Unit
        | SuiteName::Zx => compare(arguments, None),
    };
    let failure = "the comparison did not come to its end";
    workspace::sandboxed(&directory, failure, compared)
}

fn compare(arguments: &Arguments, far: Option<&remote::Far>) -> Result<()> {
    let mut suite = suite(arguments, far);
    let wanted = |case: &Case| {
        arguments.only.is_empty() || arguments.only.iter().any(|part| case.name.contains(part))
    };
    if arguments.list {
        for case in suite.cases.iter().filter(|case| wanted(case)) {
            println!("{}", case.name);
        }
        return Ok(());
    }
    let cases: Vec<Case> = suite.cases.drain(..).filter(|case| wanted(case)).collect();
    if cases.is_empty() {
        bail!("no case is named so: --list shows them");
    }
    let report = if arguments.json { Report::Json } else { Report::Table };
    let surroundings = Surroundings {
        host: Host::look(&testbed::Place::Disk.path()),
        peers: peers::versions(&peers::default_directory(), arguments.suite.peers()),
    };
    report.begin(&suite, &surroundings)?;
    let mut all = Vec::new();
    for mut case in cases {
        let rows = run_case(suite.name, &mut case).with_context(|| case.name.clone())?;
        report.rows(&rows)?;
        all.extend(rows);
    }
    if matches!((arguments.suite, report), (SuiteName::Send, Report::Table)) {
        print!("{}", send::tables(&all));
    }
    Ok(())
}

fn suite(arguments: &Arguments, far: Option<&remote::Far>) -> Suite {
    let (disk, quick) = (testbed::Place::Disk.path(), arguments.quick);
    let rounds = arguments.rounds.map(usize::from);
    let brief = |name| brief::Options { directory: disk.join(name), quick, rounds };
    let peers = peers::find(&peers::default_directory(), arguments.suite.peers());
    let uncopy = workspace::target_directory().join("release").join("uncopy");
    match arguments.suite {
        SuiteName::Copy => {
            copy::suite(copy::Options { uncopy, peers, disk: disk.clone(), quick, rounds })
        }
        SuiteName::Mechanisms => copy::mechanisms::suite(disk, quick, rounds),
        SuiteName::Tree => {
            tree::suite(&tree::Options { uncopy, peers, disk: disk.clone(), quick, rounds })
        }
        SuiteName::Channel => channel::suite(peers, brief("channel")),
        SuiteName::Fidl => fidl::suite(peers, brief("fidl")),
        SuiteName::Remote => {
            remote::suite(&brief("remote"), &remote::Programs { uncopy, peers }, far)
        }
        SuiteName::Python => python::suite(brief("python"), &crate::python::installed()),
        SuiteName::Send => send::suite(brief("send")),
        SuiteName::Unit => {
            unit::suite(&unit::Options { uncopy, disk: disk.clone(), quick, rounds })
        }
        SuiteName::Zx => zx::suite(brief("zx")),
    }
}

fn run_case(suite: &str, case: &mut Case) -> Result<Vec<row::Row>> {
    if let Some(reason) = case.fixture.prepare()? {
        return Ok(row::rows_of_skipped(suite, case, &reason));
    }
    let outcomes = rounds::run(case)?;
    let rows = row::rows_of(suite, case, &outcomes);
    case.fixture.finish()?;
    Ok(rows)
}
