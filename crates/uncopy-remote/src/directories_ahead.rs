//! Directories that are opened and listed before anybody asks for them, so that a tree does not cost two round trips for
//! each of its directories.
//!
//! The engine goes depth first, in the order of a listing: once it enters a directory, it enters its next siblings, or
//! what is below them. So some siblings are opened ahead, and listed as soon as their handles are known if contents come with
//! listings. What was opened in vain is closed when its parent is.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};

use uncopy_copy::peer::{PeerContents, PeerError, PeerHandle, PeerOpened};

/// Maximum numbers of siblings that are opened ahead, eight for each one that was asked for, and listed ahead: their pages take
/// memory.
const MAX_OPENED: usize = 64;
const MAX_LISTED: usize = 32;

/// Maximum number of all directories that are opened ahead.
const MAX_OPENED_IN_ALL: usize = 256;

/// Maximum number of names that are remembered.
const MAX_NAMES: usize = 8192;

/// Directory of the other machine: its parent, and its name there.
type Place = (PeerHandle, OsString);

/// Question to the other end, and its answer when it has come.
pub(crate) trait AskedOpening {
    /// Takes out the answer, if it has come.
    fn try_take(&self) -> Option<Result<PeerOpened, PeerError>>;

    /// Waits for the answer.
    fn wait(self) -> Result<PeerOpened, PeerError>;
}

/// Directory that is opened ahead.
#[derive(Debug)]
struct Ahead<A> {
    asked: A,
    /// Answer that has come, and whether a listing was begun.
    opened: Option<Result<PeerOpened, PeerError>>,
    is_listed: bool,
    /// Contents that its listing is to bring. None: it may want others when it is asked for, and its one listing is not
    /// begun before.
    contents: PeerContents,
}

impl<A: AskedOpening> Ahead<A> {
    /// Looks whether the answer has come.
    fn look(&mut self) {
        if self.opened.is_none() {
            self.opened = self.asked.try_take();
        }
    }

    fn wait(self) -> Result<PeerOpened, PeerError> {
        self.opened.unwrap_or_else(|| self.asked.wait())
    }
}

/// Directories of one parent.
#[derive(Debug, Default)]
struct SiblingDirectories {
    /// Names that are not asked for yet, in the order of the listing.
    names: VecDeque<OsString>,
    contents: PeerContents,
    /// Number of those that were asked for: then the others are next.
    claimed: usize,
    /// Numbers of those that are opened and listed ahead.
    opened: usize,
    listed: usize,
}

/// Directories that are opened ahead.
#[derive(Debug)]
pub(crate) struct DirectoriesAhead<A> {
    siblings: HashMap<PeerHandle, SiblingDirectories>,
    /// Number of names of all of them.
    names: usize,
    ahead: HashMap<Place, Ahead<A>>,
    /// Those that nobody will ask for, to be closed when they are open.
    unwanted: Vec<Ahead<A>>,
}

impl<A> Default for DirectoriesAhead<A> {
    fn default() -> DirectoriesAhead<A> {
        DirectoriesAhead {
            siblings: HashMap::new(),
            names: 0,
            ahead: HashMap::new(),
            unwanted: Vec::new(),
        }
    }
}

/// AheadStep that is to be made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AheadStep {
    /// Open this directory, whose listing is to bring these contents, and call [`DirectoriesAhead::begun`].
    Open(Place, PeerContents),
    /// List this handle.
    List(PeerHandle, PeerContents),
    /// Close this handle.
    Close(PeerHandle),
}

impl<A: AskedOpening> DirectoriesAhead<A> {
    /// Takes the directories of a page of a listing, in its order.
    pub(crate) fn found(
        &mut self,
        parent: PeerHandle,
        names: impl IntoIterator<Item = OsString>,
        contents: PeerContents,
    ) {
        for name in names.into_iter().take(MAX_NAMES - self.names) {
            let siblings = self.siblings.entry(parent).or_default();
            siblings.contents = contents;
            siblings.names.push_back(name);
            self.names += 1;
        }
    }

    /// Notes that a directory is being opened.
    pub(crate) fn begun(&mut self, place: Place, contents: PeerContents, asked: A) {
        let ahead = Ahead { asked, opened: None, is_listed: false, contents };
        self.ahead.insert(place, ahead);
    }

    /// Takes out the opening of a directory that is asked for now; `None`: it is not opened ahead.
    pub(crate) fn claim(&mut self, parent: PeerHandle, name: &OsStr) -> Option<Opening<A>> {
        let siblings = self.siblings.get_mut(&parent)?;
        siblings.claimed += 1;
        if let Some(index) = siblings.names.iter().position(|other| other == name) {
            siblings.names.remove(index);
            self.names -= 1;
            return None;
        }
        let ahead = self.ahead.remove(&(parent, name.to_owned()))?;
        siblings.opened -= 1;
        siblings.listed -= usize::from(ahead.is_listed);
        Some(Opening(ahead))
    }

    /// Forgets what is below a directory that nobody needs any more.
    pub(crate) fn forget_below(&mut self, parent: PeerHandle) {
        let Some(siblings) = self.siblings.remove(&parent) else { return };
        self.names -= siblings.names.len();
        let unwanted = self.ahead.extract_if(|(above, _), _| *above == parent);
        self.unwanted.extend(unwanted.map(|(_, ahead)| ahead));
    }

    /// Returns what is to be done next; `None`: nothing at present. `may_list`: whether there is memory for a page.
    pub(crate) fn next(&mut self, may_list: bool) -> Option<AheadStep> {
        self.close_next()
            .or_else(|| may_list.then(|| self.list_next()).flatten())
            .or_else(|| self.open_next())
    }

    fn close_next(&mut self) -> Option<AheadStep> {
        self.unwanted.iter_mut().for_each(Ahead::look);
        while let Some(index) = self.unwanted.iter().position(|ahead| ahead.opened.is_some()) {
            if let Some(Ok(opened)) = self.unwanted.swap_remove(index).opened {
                return Some(AheadStep::Close(opened.handle));
            }
        }
        None
    }

    fn list_next(&mut self) -> Option<AheadStep> {
        for ((parent, _), ahead) in &mut self.ahead {
            let Some(siblings) = self.siblings.get_mut(parent) else { continue };
            if ahead.is_listed || ahead.contents.up_to == 0 || siblings.listed == MAX_LISTED {
                continue;
            }
            ahead.look();
            if let Some(Ok(opened)) = &ahead.opened {
                ahead.is_listed = true;
                siblings.listed += 1;
                return Some(AheadStep::List(opened.handle, ahead.contents));
            }
        }
        None
    }

    fn open_next(&mut self) -> Option<AheadStep> {
        if self.ahead.len() + self.unwanted.len() >= MAX_OPENED_IN_ALL {
            return None;
        }
        let has_next = |siblings: &SiblingDirectories| {
            let window = (8 * siblings.claimed).min(MAX_OPENED);
            siblings.opened < window && !siblings.names.is_empty()
        };
        let next = self.siblings.iter_mut().find(|(_, siblings)| has_next(siblings));
        let (parent, siblings) = next?;
        let name = siblings.names.pop_front()?;
        self.names -= 1;
        siblings.opened += 1;
        Some(AheadStep::Open((*parent, name), siblings.contents))
    }
}

/// Opening of a directory, begun before it was asked for.
#[derive(Debug)]
pub(crate) struct Opening<A>(Ahead<A>);

impl<A: AskedOpening> Opening<A> {
    /// Waits until it is open.
    pub(crate) fn wait(self) -> Result<PeerOpened, PeerError> {
        self.0.wait()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use uncopy_core::Errno;

    use super::*;

    type Answer = Result<PeerOpened, PeerError>;

    /// Opening that is answered by the test.
    #[derive(Debug, Clone, Default)]
    struct Played(Rc<RefCell<Option<Answer>>>);

    impl AskedOpening for Played {
        fn try_take(&self) -> Option<Answer> {
            self.0.borrow_mut().take()
        }

        fn wait(self) -> Answer {
            self.try_take().expect("the answer has not come")
        }
    }

    fn opened(handle: u32) -> Answer {
        let stat = uncopy_os::directory::stat_path(std::path::Path::new("/")).unwrap();
        Ok(PeerOpened { handle: PeerHandle(handle), stat })
    }

    const TOP: PeerHandle = PeerHandle(0);
    const CONTENTS: PeerContents = PeerContents { up_to: 100, with_attributes: true };

    fn names(range: std::ops::Range<u32>) -> impl Iterator<Item = OsString> {
        range.map(|number| number.to_string().into())
    }

    /// Makes every step that is due; returns the openings by name.
    fn go(
        ahead: &mut DirectoriesAhead<Played>,
        may_list: bool,
    ) -> (Vec<(String, Played)>, Vec<AheadStep>) {
        let (mut openings, mut others) = (Vec::new(), Vec::new());
        while let Some(step) = ahead.next(may_list) {
            match step {
                AheadStep::Open(place, contents) => {
                    let (name, asked) = (place.1.to_str().unwrap().to_owned(), Played::default());
                    ahead.begun(place, contents, asked.clone());
                    openings.push((name, asked));
                }
                step => others.push(step),
            }
        }
        (openings, others)
    }

    #[test]
    fn siblings_are_opened_in_the_order_of_their_listing_once_one_is_asked_for() {
        let mut ahead = DirectoriesAhead::default();
        ahead.found(TOP, names(0..200), CONTENTS);
        assert!(go(&mut ahead, true).0.is_empty());
        assert!(ahead.claim(TOP, OsStr::new("0")).is_none());
        let (openings, _) = go(&mut ahead, true);
        let opened_first: Vec<&str> = openings.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(opened_first, ["1", "2", "3", "4", "5", "6", "7", "8"]);
        // Each one that is asked for makes room, up to a limit.
        *openings[0].1.0.borrow_mut() = Some(opened(7));
        let opening = ahead.claim(TOP, OsStr::new("1")).unwrap();
        assert_eq!(opening.wait().unwrap().handle, PeerHandle(7));
        assert_eq!(go(&mut ahead, true).0.len(), 9);
        for number in 2..17 {
            assert!(ahead.claim(TOP, OsStr::new(&number.to_string())).is_some());
        }
        assert_eq!(go(&mut ahead, true).0.len(), MAX_OPENED - 1);
        // One that is not opened yet is opened by whoever asks for it, and not again.
        assert!(ahead.claim(TOP, OsStr::new("199")).is_none());
        assert!(ahead.claim(TOP, OsStr::new("199")).is_none());
        assert!(ahead.claim(TOP, OsStr::new("other")).is_none());
        assert!(ahead.claim(PeerHandle(9), OsStr::new("20")).is_none());
    }

    #[test]
    fn what_is_open_is_listed_within_memory_if_contents_come_with_it() {
        for (parent, contents) in [(TOP, CONTENTS), (PeerHandle(1), PeerContents::default())] {
            let mut ahead = DirectoriesAhead::default();
            ahead.found(parent, names(0..100), contents);
            for number in 0..8 {
                ahead.claim(parent, OsStr::new(&number.to_string()));
            }
            let (openings, others) = go(&mut ahead, true);
            assert_eq!((openings.len(), others.len()), (MAX_OPENED, 0));
            for (number, (_, asked)) in openings.iter().enumerate() {
                *asked.0.borrow_mut() = Some(match number {
                    0 => Err(PeerError::System(Errno::EACCES)),
                    _ => opened(1000 + number as u32),
                });
            }
            assert!(go(&mut ahead, false).1.is_empty());
            let (_, others) = go(&mut ahead, true);
            assert_eq!(others.len(), if contents == CONTENTS { MAX_LISTED } else { 0 });
            assert!(
                others.iter().all(|step| matches!(step, AheadStep::List(_, CONTENTS))),
                "{others:?}"
            );
            // Its error is that of whoever asks for it.
            let error = ahead.claim(parent, OsStr::new("8")).unwrap().wait().unwrap_err();
            assert_eq!(error, PeerError::System(Errno::EACCES));
        }
    }

    #[test]
    fn what_nobody_asks_for_is_closed_when_it_is_open() {
        let mut ahead = DirectoriesAhead::default();
        ahead.found(TOP, names(0..100), CONTENTS);
        ahead.claim(TOP, OsStr::new("0"));
        let (openings, _) = go(&mut ahead, true);
        *openings[0].1.0.borrow_mut() = Some(opened(5));
        ahead.forget_below(TOP);
        assert_eq!(ahead.names, 0);
        let (more, others) = go(&mut ahead, true);
        assert!(more.is_empty());
        assert_eq!(others, [AheadStep::Close(PeerHandle(5))]);
        *openings[1].1.0.borrow_mut() = Some(Err(PeerError::System(Errno::ENOENT)));
        *openings[2].1.0.borrow_mut() = Some(opened(6));
        assert_eq!(go(&mut ahead, true).1, [AheadStep::Close(PeerHandle(6))]);
        assert_eq!(ahead.unwanted.len(), openings.len() - 3);
        // Names without end are not remembered.
        ahead.found(TOP, names(0..2 * MAX_NAMES as u32), PeerContents::default());
        assert_eq!(ahead.names, MAX_NAMES);
        ahead.found(PeerHandle(1), names(0..1), PeerContents::default());
        assert_eq!(ahead.names, MAX_NAMES);
    }
}
