//! Gathers header, transaction id, regions and records for one `sendmsg(2)`.

use std::cell::Cell;
use std::io::IoSlice;
use std::ops::Range;

use arrayvec::ArrayVec;

use super::packet::{Content, HEADER_BYTES, Header, RECORD_BYTES};
use super::plan::{IN_PLACE_BYTES, MAX_PARTS, PARTED_BYTES, Plan, PlannedPart, plan};
use crate::Status;
use crate::memory::{Filling, Scratch};
use crate::region::Region;
use uncopy_os::seqpacket::Part;

thread_local! {
    /// Memory of each thread for headers and small regions.
    static SCRATCH: Cell<Scratch> = const { Cell::new(Scratch::new()) };
}

/// Size of a transaction id.
pub(crate) const TXID_BYTES: usize = 4;

/// Bytes of a packet behind its header.
#[derive(Debug)]
pub(crate) struct Body<'a, R> {
    regions: &'a [R],
    bytes: usize,
    /// Transaction id that is sent in place of the first four bytes.
    txid: Option<u32>,
}

impl<'a, R: Region> Body<'a, R> {
    /// Returns a body of regions that have `bytes` together.
    pub(crate) fn new(regions: &'a [R], bytes: usize) -> Body<'a, R> {
        Body { regions, bytes, txid: None }
    }

    /// Sends `txid` in place of the first four bytes.
    pub(crate) fn with_txid(self, txid: u32) -> Body<'a, R> {
        Body { txid: Some(txid), ..self }
    }

    pub(crate) fn regions(&self) -> &'a [R] {
        self.regions
    }

    /// Returns the regions from the first on that the transaction id does not replace completely, and
    /// how many bytes of that one it replaces.
    fn behind_txid(&self) -> (&'a [R], usize) {
        let mut left = self.txid.map_or(0, |_| TXID_BYTES);
        for (index, region) in self.regions.iter().enumerate() {
            if left == 0 || left < region.length() {
                return (&self.regions[index..], left);
            }
            left -= region.length();
        }
        (&[], 0)
    }
}

impl Body<'static, IoSlice<'static>> {
    /// Returns a body without bytes.
    pub(crate) fn empty() -> Body<'static, IoSlice<'static>> {
        Body::new(&[], 0)
    }
}

/// Checks that the memory of all regions is there.
pub(crate) fn check_all(regions: &[impl Region]) -> Result<(), Status> {
    regions.iter().try_for_each(Region::check)
}

/// Checks that the memory of the first `bytes` is there, in whose place something else is sent. Other bytes are read,
/// which shows whether theirs is.
pub(crate) fn check_first(regions: &[impl Region], bytes: usize) -> Result<(), Status> {
    let mut left = bytes;
    for region in regions {
        if left == 0 {
            break;
        }
        region.check_first(left)?;
        left = left.saturating_sub(region.length());
    }
    Ok(())
}

/// A packet to be sent.
pub(super) struct Packet<'a, R> {
    pub(super) content: Content,
    pub(super) body: Body<'a, R>,
    pub(super) records: &'a [u8],
}

/// Where a part of an arranged packet lies.
enum Place<'a, R> {
    Scratch(Range<usize>),
    /// In a region, behind its first bytes.
    Region(&'a R, usize),
    Records(&'a [u8]),
}

impl<'a, R: Region> Place<'a, R> {
    fn part<'b>(&'b self, scratch: &'b Scratch) -> Part<'b> {
        match self {
            Place::Scratch(range) => Part::of(scratch.part(range.clone())),
            Place::Region(region, from) => region.lend(*from).into_part(),
            Place::Records(records) => Part::of(records),
        }
    }
}

impl<'a, R: Region> Packet<'a, R> {
    /// Appends what does not stay where it lies to `scratch`, and passes the place of each part to
    /// `put`.
    ///
    /// # Errors
    /// [`Status::InvalidArgs`] for a region whose memory is not there, or if the regions have not as
    /// many bytes as the body; [`Status::OutOfRange`] if they are too long.
    fn arrange(
        &self,
        scratch: &mut Scratch,
        mut put: impl FnMut(Place<'a, R>),
    ) -> Result<(), Status> {
        let Packet { content, body, records } = self;
        let (regions, offset) = body.behind_txid();
        let txid = body.txid.map(u32::to_ne_bytes);
        let txid = txid.as_ref().map_or(&[][..], |txid| txid);
        let behind_txid = body.bytes.checked_sub(txid.len()).ok_or(Status::InvalidArgs)?;
        let handles = records.len() / RECORD_BYTES;
        let header = Header { content: *content, handles, bytes: body.bytes }.encode();
        let begin = scratch.len();
        let fill_header = |filling: &mut Filling<'_>| {
            filling.append(&header)?;
            filling.append(txid)
        };
        if records.is_empty() && body.bytes < PARTED_BYTES {
            let fill = |filling: &mut Filling<'_>| {
                fill_header(filling)?;
                append_from(regions, offset, filling)
            };
            scratch.append(HEADER_BYTES + body.bytes, fill, Status::InvalidArgs)?;
            put(Place::Scratch(begin..scratch.len()));
            return Ok(());
        }
        // Regions in front of the first large one are copied as they are seen: a list of thousands of small ones is
        // walked once.
        let is_large = |first: &R| first.length() - offset >= IN_PLACE_BYTES;
        let room = match regions.first() {
            Some(first) if is_large(first) => HEADER_BYTES + txid.len(),
            _ => HEADER_BYTES + body.bytes + records.len(),
        };
        let copied = scratch.append_at_most(room, |filling| {
            fill_header(filling)?;
            let copied = append_short_from(regions, offset, filling)?;
            if copied == regions.len() {
                filling.append(records)?;
            }
            Ok::<_, Status>(copied)
        })?;
        put(Place::Scratch(begin..scratch.len()));
        let behind_header = scratch.len() - begin - HEADER_BYTES - txid.len();
        let (expected, others) = (behind_txid + records.len(), &regions[copied..]);
        if others.is_empty() {
            return if behind_header == expected { Ok(()) } else { Err(Status::InvalidArgs) };
        }
        let from = |index| if copied == 0 && index == 0 { offset } else { 0 };
        let mut parts = Plan::new();
        let lengths = others.iter().enumerate().map(|(index, own)| own.length() - from(index));
        let total = plan(lengths.chain([records.len()]), &mut parts)?;
        if behind_header + total != expected {
            return Err(Status::InvalidArgs);
        }
        for part in parts.drain(..) {
            match part {
                PlannedPart::InPlace(index) => put(match others.get(index) {
                    Some(region) => Place::Region(region, from(index)),
                    None => Place::Records(records),
                }),
                PlannedPart::Joined { regions: range, bytes } => {
                    let begin = scratch.len();
                    let has_records = range.end > others.len();
                    let own = &others[range.start..range.end.min(others.len())];
                    // The first of all others is large.
                    let fill = |filling: &mut Filling<'_>| {
                        R::append_all(own, filling)?;
                        if has_records { Ok(filling.append(records)?) } else { Ok(()) }
                    };
                    scratch.append(bytes, fill, Status::InvalidArgs)?;
                    put(Place::Scratch(begin..scratch.len()));
                }
            }
        }
        Ok(())
    }

    /// Returns the number of bytes, with the header.
    fn total_bytes(&self) -> usize {
        HEADER_BYTES + self.body.bytes + self.records.len()
    }

    /// Runs `send` with the parts of the packet, which are at most 1,024.
    ///
    /// # Errors
    /// As [`arrange`](Self::arrange), also for a region that lends more or fewer bytes than it has.
    pub(super) fn with_parts<T>(&self, send: impl FnOnce(&[Part<'_>]) -> T) -> Result<T, Status> {
        let mut scratch = SCRATCH.take();
        scratch.clear();
        let mut places = ArrayVec::<_, MAX_PARTS>::new();
        let arranged = self.arrange(&mut scratch, |place| places.push(place));
        let sent = arranged.and_then(|()| {
            // Collecting returns all room of the array, which is copied.
            let mut parts = ArrayVec::<_, MAX_PARTS>::new();
            parts.extend(places.iter().map(|place| place.part(&scratch)));
            are_whole(&parts, self.total_bytes()).then(|| send(&parts)).ok_or(Status::InvalidArgs)
        });
        SCRATCH.set(scratch);
        sent
    }
}

/// Whether parts have as many bytes as their packet: a region may lend more or fewer than it has by its length.
fn are_whole(parts: &[Part<'_>], total_bytes: usize) -> bool {
    parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.length())) == total_bytes
}

/// Maximum number of bytes in the scratch memory from which on a run takes no more packets.
const RUN_SCRATCH_BYTES: usize = 1 << 17;

/// Runs `send` with the parts of several packets, each at most 1,024: of as many as are without an
/// error.
pub(super) fn with_parts_of_run<'a, R: Region + 'a, T>(
    packets: impl Iterator<Item = Packet<'a, R>>,
    send: impl FnOnce(&[&[Part<'_>]]) -> T,
) -> T {
    let mut scratch = SCRATCH.take();
    scratch.clear();
    let mut places = Vec::new();
    let (mut ends, mut totals) = (Vec::new(), Vec::new());
    for packet in packets {
        let known = places.len();
        if packet.arrange(&mut scratch, |place| places.push(place)).is_err() {
            places.truncate(known);
            break;
        }
        ends.push(places.len());
        totals.push(packet.total_bytes());
        if scratch.len() >= RUN_SCRATCH_BYTES {
            break;
        }
    }
    let parts: Vec<_> = places.iter().map(|place| place.part(&scratch)).collect();
    let begins = std::iter::once(&0).chain(&ends);
    let messages = begins.zip(&ends).map(|(begin, end)| &parts[*begin..*end]).zip(totals);
    let whole = messages.take_while(|(parts, total)| are_whole(parts, *total));
    let messages: Vec<_> = whole.map(|(parts, _)| parts).collect();
    let sent = send(&messages);
    SCRATCH.set(scratch);
    sent
}

/// Appends the regions behind the first `from` bytes, which are in the first region, up to the first large one; returns
/// their number.
fn append_short_from<R: Region>(
    regions: &[R],
    from: usize,
    filling: &mut Filling<'_>,
) -> Result<usize, Status> {
    const MAX_SHORT: usize = IN_PLACE_BYTES - 1;
    match regions {
        [first, ..] if from > 0 && first.length() - from > MAX_SHORT => Ok(0),
        [first, rest @ ..] if from > 0 => {
            first.append_to(from, filling)?;
            Ok(1 + R::append_short(rest, MAX_SHORT, filling)?)
        }
        all => R::append_short(all, MAX_SHORT, filling),
    }
}

/// Appends the regions behind the first `from` bytes, which are in the first region.
fn append_from<R: Region>(
    regions: &[R],
    from: usize,
    filling: &mut Filling<'_>,
) -> Result<(), Status> {
    let rest = match regions {
        [first, rest @ ..] if from > 0 => {
            first.append_to(from, filling)?;
            rest
        }
        all => all,
    };
    R::append_all(rest, filling)
}
