//! Files of a tree that are compressed or decompressed: which, and what their copies are called.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use rustix::fs::FileType;

use super::place::Place;
use super::worker::Worker;
use crate::Transform;
use crate::compress::{self, Chosen, Conversion, Wanted};
use crate::display_path::{DisplayPath, LazyPath};
use crate::jobs::EntryKind;
use crate::source::Source;
use uncopy_core::{Error, Objection, Reason, Result};
use uncopy_os::directory;
use uncopy_os::file::Stat;

/// Goes on with a file when it is known what is to be done to it, at the place that its copy gets
/// thereby.
pub(super) fn with_choice(
    worker: &mut Worker<'_, '_>,
    place: &Place<'_>,
    fd: OwnedFd,
    stat: Stat,
    go_on: impl FnOnce(&mut Worker<'_, '_>, &Place<'_>, (OwnedFd, Stat), Option<&Chosen>),
) {
    if worker.job().options().copy.transform == Transform::None {
        return go_on(worker, place, (fd, stat), None);
    }
    match choose(worker, place, fd, stat) {
        Ok((opened, chosen)) => {
            let name = chosen.as_ref().and_then(|chosen| chosen.name.as_deref());
            let target = name.unwrap_or(given_name(place));
            go_on(worker, &Place { target, ..*place }, opened, chosen.as_ref());
        }
        Err(error) => worker.fail(place, EntryKind::File, error),
    }
}

fn choose(
    worker: &Worker<'_, '_>,
    place: &Place<'_>,
    fd: OwnedFd,
    stat: Stat,
) -> Result<((OwnedFd, Stat), Option<Chosen>)> {
    let options = &worker.job().options().copy;
    let find = || place.source();
    let lazy = LazyPath::new(&find);
    let filesystem = place.open.filesystem_of(&place.directory.entered.source, &fd, &stat);
    let source = Source::opened(DisplayPath::Lazy(&lazy), fd, stat, filesystem);
    let named = !place.directory.entered.whole;
    let wanted = Wanted { name: given_name(place), suffix: options.suffix || !named, named };
    let chosen = compress::choose(&source, wanted, options.transform)?;
    if let Some(name) = chosen.as_ref().and_then(|chosen| chosen.name.as_deref())
        && !named
    {
        refuse_rival(worker, place, name)?;
    }
    Ok((source.into_opened(), chosen))
}

/// Refuses a file whose copy would get the name of another entry, whatever becomes of that one.
fn refuse_rival(worker: &Worker<'_, '_>, place: &Place<'_>, name: &OsStr) -> Result<()> {
    let Ok(stat) = directory::stat_name(&place.open.source, name) else { return Ok(()) };
    let way = place.directory.path_from_root().join(name);
    let is_directory = stat.file_type() == FileType::Directory;
    if !worker.job().options().selection.selects(&way, is_directory) {
        return Ok(());
    }
    let reason = Reason::Refused(Objection::RivalName { name: name.into() });
    Err(Error::new("copy", place.source(), reason))
}

/// The name that the copy would have if nothing were done to it.
fn given_name<'a>(place: &Place<'a>) -> &'a OsStr {
    if place.directory.entered.whole { place.name } else { place.target }
}

/// The bytes are changed on their way.
pub(super) fn transforms(chosen: Option<&Chosen>) -> bool {
    chosen.is_some_and(|chosen| chosen.conversion != Conversion::Leave)
}
