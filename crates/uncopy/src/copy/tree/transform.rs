//! Files of a tree that are compressed or decompressed: which, and what their copies are called.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use rustix::fs::FileType;

use super::file::filesystem_of;
use super::worker::{Place, Worker};
use crate::copy::Transform;
use crate::copy::compress::{self, Chosen, Wanted, Way};
use crate::copy::job::EntryKind;
use crate::copy::named::{Late, Named};
use crate::copy::source::Source;
use crate::error::{Error, Reason, Result};
use crate::sys::directory;
use crate::sys::file::Stat;

impl Worker<'_, '_> {
    /// Goes on with a file when it is known what is to be done to it, at the place that its copy gets
    /// thereby.
    pub(super) fn with_choice(
        &mut self,
        place: &Place<'_>,
        fd: OwnedFd,
        stat: Stat,
        go_on: impl FnOnce(&mut Self, &Place<'_>, (OwnedFd, Stat), Option<&Chosen>),
    ) {
        if self.job.options.copy.transform == Transform::None {
            return go_on(self, place, (fd, stat), None);
        }
        match self.choose(place, fd, stat) {
            Ok((opened, chosen)) => {
                let name = chosen.as_ref().and_then(|chosen| chosen.name.as_deref());
                let target = name.unwrap_or(given_name(place));
                go_on(self, &Place { target, ..*place }, opened, chosen.as_ref());
            }
            Err(error) => self.fail(place, EntryKind::File, error),
        }
    }

    fn choose(
        &self,
        place: &Place<'_>,
        fd: OwnedFd,
        stat: Stat,
    ) -> Result<((OwnedFd, Stat), Option<Chosen>)> {
        let options = &self.job.options.copy;
        let find = || place.source();
        let late = Late::new(&find);
        let filesystem = filesystem_of(place.open, &place.directory.entered.source, &fd, &stat);
        let source = Source::opened(Named::Late(&late), fd, stat, filesystem);
        let named = !place.directory.entered.whole;
        let wanted = Wanted { name: given_name(place), suffix: options.suffix || !named, named };
        let chosen = compress::choose(&source, wanted, options.transform)?;
        if let Some(name) = chosen.as_ref().and_then(|chosen| chosen.name.as_deref())
            && !named
        {
            self.refuse_rival(place, name)?;
        }
        Ok((source.into_opened(), chosen))
    }

    /// Refuses a file whose copy would get the name of another entry, whatever becomes of that one.
    fn refuse_rival(&self, place: &Place<'_>, name: &OsStr) -> Result<()> {
        let Ok(stat) = directory::stat_name(&place.open.source, name) else { return Ok(()) };
        let way = place.directory.path_from_root().join(name);
        let is_directory = stat.file_type() == FileType::Directory;
        if !self.job.options.selection.selects(&way, is_directory) {
            return Ok(());
        }
        let text = format!(
            "its copy would be called {}, as another entry of its directory is; rename one of \
             them, or leave one out by --exclude",
            name.display()
        );
        Err(Error::new("copy", place.source(), Reason::Refused(text)))
    }
}

/// The name that the copy would have if nothing were done to it.
fn given_name<'a>(place: &Place<'a>) -> &'a OsStr {
    if place.directory.entered.whole { place.name } else { place.target }
}

/// The bytes are changed on their way.
pub(super) fn transforms(chosen: Option<&Chosen>) -> bool {
    chosen.is_some_and(|chosen| chosen.way != Way::Leave)
}
