//! Listing of a directory of the other machine: which connection it is asked over, and where it goes on when that ends.

use std::collections::VecDeque;
use std::sync::Arc;

use uncopy_copy::peer::{PeerContents, PeerError};
use uncopy_wire::{Answer, Call, Handle, LIST_FROM_VERSION, LISTED_ATTRIBUTES_VERSION};

use crate::budget::BudgetShare;
use crate::lanes::{Lane, Lanes, PendingAnswer};

/// Number of pages that a listing begins with: the second one would come a round trip later.
const FIRST_PAGES: usize = 2;

/// Connection over which a listing is asked for. Each has a position of its own in it.
#[derive(Debug)]
enum ListingWay {
    Session,
    Data(Arc<Lane>),
}

/// Directory to be listed, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listed {
    pub(crate) directory: Handle,
    /// Contents that its pages bring with the entries.
    pub(crate) contents: PeerContents,
    /// Maximum number of pages to be asked for ahead.
    pub(crate) pages_ahead: usize,
}

/// Listing of a directory.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Pages that were asked for, all over the same connection.
    ahead: VecDeque<PendingAnswer>,
    /// `None`: the next page may be asked for over any connection.
    way: Option<ListingWay>,
    /// Position behind the last page that was taken.
    position: Option<u64>,
    /// Number of pages to be asked for ahead: more, the longer the listing is.
    window: usize,
    is_over: bool,
}

impl Default for Listing {
    fn default() -> Listing {
        Listing {
            ahead: VecDeque::new(),
            way: None,
            position: None,
            window: FIRST_PAGES,
            is_over: false,
        }
    }
}

impl Listing {
    /// Whether the last page was taken.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Asks for one more page. Takes `share` for the answer.
    pub(crate) fn ask(
        &mut self,
        lanes: &Lanes,
        listed: Listed,
        share: &mut Option<BudgetShare>,
    ) -> Result<(), PeerError> {
        loop {
            // A connection that the listing was not asked over goes on behind what came over another one.
            let position = if self.way.is_none() { self.position } else { None };
            let way = self.way.take().unwrap_or_else(|| choose(lanes));
            let call = call(lanes.version(), listed, position);
            match &way {
                ListingWay::Session => {
                    self.ahead.push_back(lanes.begin_over_session(&call, share)?);
                }
                ListingWay::Data(lane) => {
                    match lanes.begin_over(lane, &call, share) {
                        // Pages that it owes are lost too, and found so in their turn.
                        Err(PeerError::Lost { .. }) if self.ahead.is_empty() => continue,
                        Err(PeerError::Lost { .. }) => {}
                        asked => self.ahead.push_back(asked?),
                    }
                }
            }
            self.way = Some(way);
            return Ok(());
        }
    }

    /// Asks for further pages as long as `share` grants memory for them.
    pub(crate) fn ask_ahead(
        &mut self,
        lanes: &Lanes,
        listed: Listed,
        share: &dyn Fn() -> Option<BudgetShare>,
    ) -> Result<(), PeerError> {
        // Behind what the session owes, the listing moves to a data connection that stands now.
        if self.is_to_move(lanes) {
            return Ok(());
        }
        while !self.is_over && self.ahead.len() < self.window {
            let (Some(share), before) = (share(), self.ahead.len()) else { break };
            self.ask(lanes, listed, &mut Some(share))?;
            if self.ahead.len() == before {
                break;
            }
        }
        Ok(())
    }

    fn is_to_move(&self, lanes: &Lanes) -> bool {
        matches!(self.way, Some(ListingWay::Session)) && self.position.is_some() && uses_data(lanes)
    }

    /// Takes out the next page: asks for it if that was not done, and for further ones ahead.
    pub(crate) fn take(
        &mut self,
        lanes: &Lanes,
        listed: Listed,
        share: &dyn Fn() -> Option<BudgetShare>,
    ) -> Result<Answer, PeerError> {
        loop {
            if self.ahead.is_empty() {
                if self.is_to_move(lanes) {
                    self.way = None;
                }
                // The page that is waited for needs no share: there are as many as readers.
                self.ask(lanes, listed, &mut None)?;
            }
            self.ask_ahead(lanes, listed, share)?;
            let Some(next) = self.ahead.pop_front() else { continue };
            match lanes.wait_for_answer(next) {
                // All that its connection owed is asked for again over another one.
                Ok(None) => {
                    self.ahead.clear();
                    self.way = None;
                }
                Ok(Some(answer)) => {
                    self.note(&answer, listed.pages_ahead);
                    self.ask_ahead(lanes, listed, share)?;
                    return Ok(answer);
                }
                Err(error) => {
                    self.ahead.clear();
                    return Err(error);
                }
            }
        }
    }

    fn note(&mut self, answer: &Answer, pages_ahead: usize) {
        if let Answer::Entries { is_last, position, .. } = answer {
            self.position = *position;
            self.window = (self.window * 2).min(pages_ahead);
            if *is_last {
                self.is_over = true;
                self.ahead.clear();
            }
        }
    }
}

fn uses_data(lanes: &Lanes) -> bool {
    lanes.version() >= LIST_FROM_VERSION && lanes.has_calling()
}

fn choose(lanes: &Lanes) -> ListingWay {
    match lanes.choose_calling().filter(|_| uses_data(lanes)) {
        Some(lane) => ListingWay::Data(lane),
        None => ListingWay::Session,
    }
}

fn call(version: u16, listed: Listed, position: Option<u64>) -> Call {
    let Listed { directory, contents: PeerContents { up_to: contents_up_to, .. }, .. } = listed;
    let wants_attributes = listed.contents.with_attributes && version >= LISTED_ATTRIBUTES_VERSION;
    match version >= LIST_FROM_VERSION {
        true => Call::ListFrom { directory, position, contents_up_to, wants_attributes },
        false => Call::List { directory, contents_up_to },
    }
}
