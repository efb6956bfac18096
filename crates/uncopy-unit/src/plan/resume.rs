//! Goes on with a plan that was killed, and makes its checkpoints.
//!
//! A checkpoint is made while no thread lists a directory. What it speaks of is flushed before, so it also holds after a
//! power cut. Files that are longer are cut off when the plan goes on, and younger ones are removed. A checkpoint that cannot
//! be used costs time and nothing else, since a plan can always be begun anew; so that is what is done.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::checkpoint::{Checkpoint, Look, RequestKey, Task};
use super::directory::{PlanDirectory, system, unit_path};
use super::links::{Filesystem, LinkSpill};
use super::pace::Pacer;
use super::units::{FINISH, Units};
use super::walk::{Roots, names};
use super::{AnewReason, Beginning, PlanError, PlanRequest, RequestDifference, Shared};
use crate::format::{PlanId, RelativePath, Root, SCHEMA};
use uncopy_core::Errno;
use uncopy_os::Sys;

impl RequestKey {
    pub(super) fn of(request: &PlanRequest, source: &Root, destination: &Root) -> RequestKey {
        let PlanRequest {
            options,
            selection,
            one_filesystem,
            skip_links,
            specials,
            update,
            compare,
            ..
        } = request;
        let PlanRequest { delete, files, bytes, version, .. } = request;
        let choices = (options, selection, one_filesystem, skip_links, specials, update, compare);
        // Another version may write the types of another one in another way, and is another request anyway.
        let text = format!("{choices:?} {:?}", (delete, files, bytes, version));
        let digest = blake3::hash(text.as_bytes()).to_hex().to_string();
        RequestKey { source: source.clone(), destination: destination.clone(), digest }
    }
}

/// State that a plan begins with.
pub(super) struct Start {
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) devices: Vec<Filesystem>,
    pub(super) beginning: Beginning,
}

/// Looks for a checkpoint that this request can go on from. Without one the directory is empty then.
pub(super) fn start(
    directory: &PlanDirectory,
    key: &RequestKey,
    roots: &Roots,
) -> Result<Start, PlanError> {
    let found = match directory.checkpoint()? {
        None => Err(Beginning::New),
        Some(Err(error)) => Err(Beginning::Anew(AnewReason::Damaged { error })),
        Some(Ok(checkpoint)) => {
            refuse_other(directory, &checkpoint.request, key)?;
            match usable(directory, &checkpoint, roots)? {
                Ok(devices) => Ok((checkpoint, devices)),
                Err(reason) => Err(Beginning::Anew(reason)),
            }
        }
    };
    match found {
        Ok((checkpoint, devices)) => {
            let beginning =
                Beginning::Resumed { entries: checkpoint.totals.entries, made: checkpoint.made };
            Ok(Start { checkpoint: Some(checkpoint), devices, beginning })
        }
        Err(beginning) => {
            let cleared = directory.clear();
            cleared.map_err(|error| system("clear", directory.path(), &error))?;
            let devices = vec![(roots.source_stat.device, RelativePath::root())];
            Ok(Start { checkpoint: None, devices, beginning })
        }
    }
}

fn refuse_other(
    directory: &PlanDirectory,
    begun: &RequestKey,
    key: &RequestKey,
) -> Result<(), PlanError> {
    let RequestKey { source, destination, .. } = begun;
    let difference = match begun {
        begun if begun == key => return Ok(()),
        _ if (source, destination) == (&key.source, &key.destination) => RequestDifference::Options,
        _ => RequestDifference::Roots,
    };
    Err(PlanError::OtherRequest {
        directory: directory.path().to_owned(),
        from: source.clone().into(),
        to: destination.clone().into(),
        difference,
    })
}

/// Checks that everything is as it was at a checkpoint, removes what is younger, and returns the filesystems.
fn usable(
    plan: &PlanDirectory,
    checkpoint: &Checkpoint,
    roots: &Roots,
) -> Result<Result<Vec<Filesystem>, AnewReason>, PlanError> {
    if let Some(reason) = checkpoint.other_roots(&roots.seen) {
        return Ok(Err(reason));
    }
    let changed = |root: &Path, path: &[u8]| {
        let directory = root.join(OsStr::from_bytes(path));
        Ok(Err(AnewReason::Changed { directory }))
    };
    let RequestKey { source, destination, .. } = &checkpoint.request;
    for task in &checkpoint.tasks {
        let Some(position) = &task.from else { continue };
        let (root, shown) = match (task.look, &roots.destination) {
            (Look::Source, _) => (&roots.source, source),
            (_, Some((root, _))) => (root, destination),
            (_, None) => return changed(destination.as_path(), b""),
        };
        let names: Vec<_> = names(&task.path).collect();
        let stat = root.open_listed(&names).and_then(|found| found.examine());
        match stat {
            Ok(stat) if position.holds_in(&stat) => {}
            // The rest of it is gone.
            Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            _ => return changed(shown.as_path(), &task.path),
        }
    }
    let Ok(devices) = filesystems(roots, &checkpoint.links.devices) else {
        return changed(source.as_path(), b"");
    };
    let removed = plan.remove_but(&checkpoint.units, &checkpoint.links);
    let before = removed.map_err(|error| system("clear", plan.path(), &error))?;
    let mut files = vec![(plan.units().join(FINISH), checkpoint.units.finish.1)];
    let open = checkpoint.units.open.iter();
    files.extend(open.map(|open| (unit_path(&plan.units(), open.unit), open.length)));
    let parts = checkpoint.links.parts.iter();
    files.extend(parts.map(|(part, length)| (LinkSpill::path_in(&plan.scratch(), *part), *length)));
    let is_short = |path: &Path, length| {
        !fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() >= length)
    };
    match files.into_iter().find(|(path, length)| is_short(path, *length)) {
        Some((path, _)) => Ok(Err(AnewReason::Missing { file: path })),
        None if before < checkpoint.units.next_unit => {
            Ok(Err(AnewReason::Missing { file: plan.units() }))
        }
        None => Ok(Ok(devices)),
    }
}

/// Returns the numbers that filesystems have now. They must be as many as before: a file has several names in one of
/// them only.
fn filesystems(roots: &Roots, directories: &[RelativePath]) -> Sys<Vec<Filesystem>> {
    let mut found: Vec<Filesystem> = Vec::new();
    for path in directories {
        let names: Vec<_> = path.names().collect();
        let device = roots.source.open_beneath(&names)?.examine()?.device;
        if found.iter().any(|(known, _)| *known == device) {
            return Err(Errno::EXDEV);
        }
        found.push((device, path.clone()));
    }
    Ok(found)
}

/// Maker of the checkpoints of a plan.
pub(super) struct Saver<'a> {
    pub(super) directory: &'a PlanDirectory,
    pub(super) key: &'a RequestKey,
    pub(super) plan: PlanId,
    pub(super) roots: &'a Roots,
    pub(super) units: &'a Units,
    pub(super) links: &'a LinkSpill,
    pub(super) shared: &'a Shared,
    pub(super) pacer: &'a Pacer,
}

impl Saver<'_> {
    /// Makes a checkpoint while no thread lists a directory. There is none of a plan with problems, which comes to
    /// nothing, and none without tasks: a directory of another machine is listed in part, and only while it is open.
    pub(super) fn save(&self, tasks: Option<&[Task]>, written_out: usize) -> Result<(), PlanError> {
        // A question that was not answered is no answer.
        self.roots.check_connected()?;
        let is_sound = !self.shared.is_over() && !self.shared.has_problems();
        if let Some(tasks) = tasks.filter(|_| is_sound) {
            let links = self.links.save(written_out)?;
            let checkpoint = Checkpoint {
                schema: SCHEMA,
                request: self.key.clone(),
                plan: self.plan,
                made: crate::now(),
                seen: self.units.seen(),
                totals: self.shared.totals(),
                units: self.units.save()?,
                links,
                tasks: tasks.to_vec(),
            };
            self.directory.put_checkpoint(&checkpoint)?;
            self.links.remove_below(written_out)?;
        }
        self.pacer.made();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
