//! Decides which files of a tree are compressed or decompressed, and names their copies.

use std::ffi::OsStr;

use rustix::fs::FileType;

use super::context::Context;
use super::place::{OpenFile, Place};
use crate::compress::{self, Wanted};
use crate::conversion::Chosen;
use crate::display_path::{DisplayPath, LazyPath};
use crate::source::Source;
use crate::{CopyOptions, Transform};
use uncopy_core::{Error, Objection, Reason, Result};

/// Decides whether a file is compressed or decompressed.
///
/// # Errors
/// Its contents cannot be read, or its copy would get the name of another entry.
pub(super) fn choose(
    context: &Context<'_>,
    place: &Place<'_>,
    file: OpenFile,
) -> Result<(OpenFile, Option<Chosen>)> {
    let options = context.options();
    if options.copy.transform == Transform::None {
        return Ok((file, None));
    }
    let OpenFile { file, stat } = file;
    let CopyOptions { suffix, transform, .. } = options.copy;
    let find = || place.source();
    let lazy = LazyPath::new(&find);
    let filesystem = place.open.filesystem_of(&place.directory.entered.source, &file, &stat);
    let source = Source::opened(DisplayPath::Lazy(&lazy), file, stat, filesystem);
    let named = !place.directory.entered.whole;
    let wanted = Wanted { name: given_name(place), suffix: suffix || !named, named };
    let chosen = compress::choose(&source, wanted, transform, context.kinds())?;
    if let Some(name) = chosen.as_ref().and_then(|chosen| chosen.name.as_deref())
        && !named
    {
        refuse_rival(context, place, name)?;
    }
    let (file, stat) = source.into_opened();
    Ok((OpenFile { file, stat }, chosen))
}

/// Returns the place with the name that the copy gets by its transformation.
pub(super) fn renamed<'a>(place: &Place<'a>, chosen: Option<&'a Chosen>) -> Place<'a> {
    let Some(chosen) = chosen else { return *place };
    Place { target: chosen.name.as_deref().unwrap_or(given_name(place)), ..*place }
}

/// Refuses a file whose copy would get the name of another entry, whatever becomes of that one.
fn refuse_rival(context: &Context<'_>, place: &Place<'_>, name: &OsStr) -> Result<()> {
    let Ok(stat) = place.open.source.stat_name(name) else { return Ok(()) };
    let way = place.directory.path_from_root().join(name);
    let is_directory = stat.file_type() == FileType::Directory;
    if !context.selects(&way, is_directory) {
        return Ok(());
    }
    let reason = Reason::Refused(Objection::RivalName { name: name.into() });
    Err(Error::new("copy", place.source(), reason))
}

/// Returns the name that the copy would have without a transformation.
fn given_name<'a>(place: &Place<'a>) -> &'a OsStr {
    if place.directory.entered.whole { place.name } else { place.target }
}
