//! Says which system obeys which option of a job of trees (pure).

use super::{NO_SUCH, NOT_BUILT, Request, Support, YES, honoured, refused, row};
use crate::Existing;
use crate::Transform;
use crate::jobs::{
    Compare, DestinationLinks, HardLinks, JobOptions, Links, OnError, Parents, Sources,
};
use uncopy_core::{CopyOption, System};

/// Every request of a job of trees or of entries of them, in the order of the options.
///
/// Trees also refuse each request of [`REQUESTS`](super::REQUESTS) that files refuse; options of files are listed here where trees
/// refuse more. A job of single files has no further options.
pub static TREE_REQUESTS: [Request<JobOptions>; 36] = [
    honoured("sources = Trees or Entries", |o| o.sources != Sources::Files),
    row(
        CopyOption::Parents,
        "parents = Keep or KeepBelow",
        |o| o.parents != Parents::Omit,
        [NOT_BUILT; 3],
    ),
    honoured("links = Preserve", |o| o.links == Links::Preserve),
    honoured("links = Follow or Skip", |o| o.links != Links::Preserve),
    honoured("follow_roots", |o| o.follow_roots),
    honoured("destination_links = Refuse", |o| o.destination_links == DestinationLinks::Refuse),
    honoured("hard_links = Keep or Separate", |o| {
        matches!(o.hard_links, HardLinks::Keep | HardLinks::Separate)
    }),
    honoured("one_filesystem", |o| o.one_filesystem),
    honoured("follow_outside", |o| o.follow_outside),
    row(CopyOption::Specials, "specials", |o| o.specials, [YES, NOT_BUILT, NOT_BUILT]),
    honoured("selection", |o| !o.selection.is_everything()),
    row(CopyOption::Link, "link", |o| o.link, [NOT_BUILT; 3]),
    honoured("update", |o| o.update),
    honoured("compare = Size or Contents", |o| o.compare != Compare::Times),
    row(CopyOption::LinkDest, "link_dest", |o| o.link_dest.is_some(), [NOT_BUILT; 3]),
    row(CopyOption::Delete, "delete", |o| o.delete.is_some(), [NOT_BUILT; 3]),
    row(CopyOption::RemoveSource, "remove_source", |o| o.remove_source, [NOT_BUILT; 3]),
    honoured("dry_run", |o| o.dry_run),
    honoured("on_error = StopOnDestination, Skip or Abort", |o| {
        matches!(o.on_error, OnError::StopOnDestination | OnError::Skip | OnError::Abort)
    }),
    honoured("jobs = 1", |o| o.jobs.is_some_and(|jobs| jobs.get() == 1)),
    row(
        CopyOption::Jobs,
        "jobs = 2 or more",
        |o| o.jobs.is_some_and(|jobs| jobs.get() > 1),
        [NOT_BUILT; 3],
    ),
    honoured("bytes_per_second", |o| o.bytes_per_second.is_some()),
    honoured("retries, scan_ahead, gate", |o| o.retries > 0 || o.scan_ahead || o.gate.is_some()),
    row(CopyOption::Resume, "resume", |o| o.resume, [YES, YES, NOT_BUILT]),
    row(
        CopyOption::LinksInMemory,
        "links_in_memory",
        |o| o.links_in_memory.is_some(),
        [NOT_BUILT; 3],
    ),
    row(
        CopyOption::Remove,
        "copy.existing = Remove",
        |o| o.copy.existing == Existing::Remove,
        [YES; 3],
    ),
    row(CopyOption::Ask, "copy.ask", |o| o.copy.ask, [YES; 3]),
    row(CopyOption::Backup, "copy.backup", |o| o.copy.backup.is_some(), [YES; 3]),
    row(CopyOption::AttributesOnly, "copy.attributes_only", |o| o.copy.attributes_only, [YES; 3]),
    row(
        CopyOption::PreserveOwnership,
        "copy.preserve.ownership",
        |o| o.copy.preserve.ownership,
        [YES, NOT_BUILT, YES],
    ),
    row(
        CopyOption::PreserveXattr,
        "copy.preserve.xattr",
        |o| o.copy.preserve.xattr,
        [YES, NOT_BUILT, NOT_BUILT],
    ),
    row(
        CopyOption::PreserveAcl,
        "copy.preserve.acl",
        |o| o.copy.preserve.acl,
        [YES, NOT_BUILT, NOT_BUILT],
    ),
    row(
        CopyOption::ModeChanges,
        "copy.mode_changes",
        |o| o.copy.mode_changes.is_some(),
        [YES, NO_SUCH, YES],
    ),
    row(CopyOption::Owner, "copy.owner", |o| o.copy.owner.is_some(), [YES, NOT_BUILT, YES]),
    row(CopyOption::Durable, "copy.durable", |o| o.copy.durable, [YES; 3]),
    row(
        CopyOption::Transform,
        "copy.transform",
        |o| o.copy.transform != Transform::None,
        [NOT_BUILT; 3],
    ),
];

/// Returns the options that ask for something that a system refuses for trees, in the order of [`CopyOption::ALL`].
#[must_use]
pub fn refused_for_trees(options: &JobOptions, system: System) -> Vec<CopyOption> {
    every_field_has_rows(options);
    let asked = TREE_REQUESTS.iter().filter(|request| request.is_in(options));
    let of_trees = asked.filter(|request| request.on(system) != Support::Honoured);
    let mut refused = refused(&options.copy, system);
    refused.extend(of_trees.filter_map(|request| request.option));
    refused.sort_unstable();
    refused.dedup();
    refused
}

/// Takes the options apart field by field, so that a new one has to be thought of here.
fn every_field_has_rows(options: &JobOptions) {
    let JobOptions {
        copy: _,
        sources: _,
        parents: _,
        links: _,
        follow_roots: _,
        destination_links: _,
        hard_links: _,
        one_filesystem: _,
        follow_outside: _,
        specials: _,
        selection: _,
        link: _,
        update: _,
        compare: _,
        link_dest: _,
        delete: _,
        remove_source: _,
        dry_run: _,
        on_error: _,
        jobs: _,
        bytes_per_second: _,
        retries: _,
        resume: _,
        links_in_memory: _,
        scan_ahead: _,
        gate: _,
        // Without a row: it changes when a job ends, and not what it does.
        remover: _,
    } = options;
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU64, NonZeroUsize};

    use super::super::REQUESTS;
    use super::*;
    use crate::jobs::{Delete, LinkDest};
    use crate::{Backup, Level, Owner};

    type Change = fn(&mut JobOptions);

    /// How to ask for each row, by its words.
    const CHANGES: [(&str, Change); 36] = [
        ("sources = Trees or Entries", |o| o.sources = Sources::Entries),
        ("parents = Keep or KeepBelow", |o| o.parents = Parents::Keep),
        ("links = Preserve", |_| {}),
        ("links = Follow or Skip", |o| o.links = Links::Skip),
        ("follow_roots", |o| o.follow_roots = true),
        ("destination_links = Refuse", |o| o.destination_links = DestinationLinks::Refuse),
        ("hard_links = Keep or Separate", |o| o.hard_links = HardLinks::Separate),
        ("one_filesystem", |o| o.one_filesystem = true),
        ("follow_outside", |o| o.follow_outside = true),
        ("specials", |o| o.specials = true),
        ("selection", |o| o.selection.exclude("a").unwrap()),
        ("link", |o| o.link = true),
        ("update", |o| o.update = true),
        ("compare = Size or Contents", |o| o.compare = Compare::Contents),
        ("link_dest", |o| o.link_dest = Some(LinkDest::new())),
        ("delete", |o| o.delete = Some(Delete::default())),
        ("remove_source", |o| o.remove_source = true),
        ("dry_run", |o| o.dry_run = true),
        ("on_error = StopOnDestination, Skip or Abort", |o| o.on_error = OnError::Abort),
        ("jobs = 1", |o| o.jobs = NonZeroUsize::new(1)),
        ("jobs = 2 or more", |o| o.jobs = NonZeroUsize::new(2)),
        ("bytes_per_second", |o| o.bytes_per_second = NonZeroU64::new(1 << 30)),
        ("retries, scan_ahead, gate", |o| o.retries = 1),
        ("resume", |o| o.resume = true),
        ("links_in_memory", |o| o.links_in_memory = Some(1)),
        ("copy.existing = Remove", |o| o.copy.existing = Existing::Remove),
        ("copy.ask", |o| o.copy.ask = true),
        ("copy.backup", |o| o.copy.backup = Some(Backup::new())),
        ("copy.attributes_only", |o| o.copy.attributes_only = true),
        ("copy.preserve.ownership", |o| o.copy.preserve.ownership = true),
        ("copy.preserve.xattr", |o| o.copy.preserve.xattr = true),
        ("copy.preserve.acl", |o| o.copy.preserve.acl = true),
        ("copy.mode_changes", |o| o.copy.mode_changes = "600".parse().ok()),
        ("copy.owner", |o| o.copy.owner = Some(Owner::new().user(0))),
        ("copy.durable", |o| o.copy.durable = true),
        ("copy.transform", |o| o.copy.transform = Transform::Compress(Level::default())),
    ];

    #[test]
    fn each_request_of_trees_is_found_and_refused_as_its_row_says_on_every_system() {
        for (request, (values, change)) in TREE_REQUESTS.iter().zip(CHANGES) {
            assert_eq!(request.values, values);
            let mut options = JobOptions::default();
            change(&mut options);
            assert!(request.is_in(&options), "{values}");
            for system in System::ALL {
                let mut expected = refused(&options.copy, system);
                if request.on(system) != Support::Honoured {
                    expected.extend(request.option);
                }
                expected.sort_unstable();
                expected.dedup();
                assert_eq!(refused_for_trees(&options, system), expected, "{values}, {system}");
            }
        }
    }

    #[test]
    fn every_name_of_an_option_has_a_row() {
        let of_files = REQUESTS.iter().filter_map(|request| request.option);
        let of_trees = TREE_REQUESTS.iter().filter_map(|request| request.option);
        let mut named: Vec<_> = of_files.chain(of_trees).collect();
        named.sort_unstable();
        named.dedup();
        assert_eq!(named, CopyOption::ALL);
    }

    #[test]
    fn plain_options_of_trees_are_honoured_everywhere() {
        for system in System::ALL {
            assert_eq!(refused_for_trees(&JobOptions::default(), system), []);
        }
    }
}
