//! Flags of `uncopy cp` that work only on Linux.

use uncopy::System;
use uncopy::copy::CopyOption;

/// Next step for such flags.
pub(crate) const NEXT_STEP: &str =
    "leave them out, and out of the settings (`uncopy config show` prints their origins)";

/// Describes which flags do not work on this system.
pub(crate) fn not_here(options: &[CopyOption]) -> String {
    let flags: Vec<&str> = options.iter().map(|option| flag(*option)).collect();
    let does = if let [_] = *options { "does" } else { "do" };
    format!("{} {does} not work on this system yet", flags.join(", "))
}

/// Returns why `--manifest` is refused on a system.
pub(crate) fn manifest_refusal(system: System) -> Option<&'static str> {
    const REFUSAL: &str = "--manifest does not work on this system yet; leave it out, and take the digests of --json and --digest";
    (system != System::Linux).then_some(REFUSAL)
}

/// Returns the flag, or the kind of source, that needs the option.
fn flag(option: CopyOption) -> &'static str {
    match option {
        CopyOption::Allow => "--method",
        CopyOption::Require => "--require, --require-zero-copy and --no-user-copy",
        CopyOption::Prefer => "--prefer=cpu",
        CopyOption::Sparse => "--sparse=always",
        CopyOption::Cache => "--cache",
        CopyOption::IfChanged => "--if-changed=retry",
        CopyOption::FlushSource => "--if-changed=fail, which flushes the source,",
        CopyOption::Remove => "--remove-destination",
        CopyOption::Ask => "--interactive",
        CopyOption::Backup => "--backup",
        CopyOption::AttributesOnly => "--attributes-only",
        CopyOption::PreserveMode => "--preserve=mode",
        CopyOption::PreserveOwnership => "--preserve=ownership",
        CopyOption::PreserveTimestamps => "--preserve=timestamps",
        CopyOption::PreserveXattr => "--preserve=xattr",
        CopyOption::PreserveAcl => "--preserve=acl",
        CopyOption::ModeChanges => "--chmod",
        CopyOption::Owner => "--chown",
        CopyOption::Verify => "--verify",
        CopyOption::Digest => "--digest",
        CopyOption::Durable => "--durable",
        CopyOption::InPlace => "--in-place",
        CopyOption::CopyContents => "--copy-contents",
        CopyOption::ReadStreams => "reading a FIFO or device",
        CopyOption::ZeroCopyMin => "--zero-copy-min",
        CopyOption::DirectMin => "--direct-min",
        CopyOption::DirectCpuMin => "--direct-cpu-min",
        CopyOption::Transform => "--compress and --decompress",
        CopyOption::Parents => "--parents and --files-from",
        CopyOption::Specials => "--specials",
        CopyOption::Link => "--link",
        CopyOption::LinkDest => "--link-dest",
        CopyOption::Delete => "--delete",
        CopyOption::RemoveSource => "--remove-source-files",
        CopyOption::Jobs => "--jobs, other than 1,",
        CopyOption::Resume => "--resume",
        CopyOption::LinksInMemory => "a limit of remembered hard links",
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use clap::{Args, Command};
    use uncopy::copy::systems::{REQUESTS, Request, TREE_REQUESTS};

    use super::*;
    use crate::flags::copy::CopyArgs;

    #[test]
    fn every_option_is_named_by_a_flag_that_there_is() {
        let command = CopyArgs::augment_args(Command::new("cp"));
        let known: Vec<&str> = command.get_arguments().filter_map(|flag| flag.get_long()).collect();
        for option in CopyOption::ALL {
            let words = flag(*option).split(' ').filter_map(|word| word.strip_prefix("--"));
            let mut flags = 0;
            for word in words {
                let name = word.split(['=', ',']).next().unwrap();
                assert!(known.contains(&name), "{option}: --{name}");
                flags += 1;
            }
            let has_none = matches!(option, CopyOption::ReadStreams | CopyOption::LinksInMemory);
            assert!(flags > 0 || has_none, "{option}");
        }
    }

    /// Renders the table of requests as `docs/systems.md` has it.
    fn table<Options>(requests: &[Request<Options>]) -> String {
        let elsewhere = [System::MacOs, System::Windows, System::Other];
        let mut table = String::from(
            "| option | `uncopy cp` | macOS | Windows | others |\n|---|---|---|---|---|\n",
        );
        for request in requests {
            let flag = request.option.map_or_else(String::new, |option| match flag(option) {
                flags if flags.starts_with('-') => format!("`{}`", flags.trim_end_matches(',')),
                words => words.to_owned(),
            });
            let [macos, windows, others] = elsewhere.map(|system| request.on(system));
            writeln!(table, "| {} | {flag} | {macos} | {windows} | {others} |", request.values)
                .unwrap();
        }
        table
    }

    #[test]
    fn the_book_has_the_tables_of_requests() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/systems.md");
        let book = std::fs::read_to_string(path).unwrap();
        for table in [table(&REQUESTS), table(&TREE_REQUESTS)] {
            assert!(book.contains(&table), "docs/systems.md lacks this table:\n{table}");
        }
    }

    #[test]
    fn manifests_are_written_on_linux_alone() {
        for system in System::ALL {
            assert_eq!(manifest_refusal(system).is_none(), system == System::Linux, "{system}");
        }
    }

    #[test]
    fn all_of_them_are_named() {
        assert_eq!(
            not_here(&[CopyOption::Sparse]),
            "--sparse=always does not work on this system yet"
        );
        assert_eq!(
            not_here(&[CopyOption::Sparse, CopyOption::Durable]),
            "--sparse=always, --durable do not work on this system yet"
        );
    }
}
