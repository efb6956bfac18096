//! On-disk format of a journal: a sequence of frames with checksums.
//!
//! Numbers are little-endian. A frame is a header (magic number, kind, payload length, checksum of these),
//! the payload, and a checksum of the whole. Without the header's own checksum a damaged length would look
//! like a truncated frame, and hide all frames after it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};

use crate::digest::{CHUNK_DIGEST_BYTES, ChunkDigest};
use crate::path_bytes;
use uncopy_os::file_id::FileId;

/// Magic number of every frame; it contains the version of the format.
pub(crate) const MAGIC: &[u8; 4] = b"UJ5\n";
const CHECKSUM_BYTES: usize = 16;
const FIELDS_BYTES: usize = 12;
const HEAD_BYTES: usize = FIELDS_BYTES + CHECKSUM_BYTES;
/// Bytes of a frame besides its payload.
pub(crate) const FRAME_BYTES: u64 = (HEAD_BYTES + CHECKSUM_BYTES) as u64;
/// Maximum payload; a longer one is damage.
pub(crate) const MAX_BYTES: usize = 1 << 20;

const BEGIN: u32 = 1;
const DONE: u32 = 2;
const CHUNKS: u32 = 3;
const ENDED: u32 = 4;
const LINKED: u32 = 5;
const KEPT: u32 = 6;

/// Truncated digest that identifies a file, or one state of it.
pub(crate) type Short = [u8; CHECKSUM_BYTES];

/// Truncates a BLAKE3 digest.
pub(crate) fn short(hash: blake3::Hash) -> Short {
    let mut bytes = [0; CHECKSUM_BYTES];
    bytes.copy_from_slice(&hash.as_bytes()[..CHECKSUM_BYTES]);
    bytes
}

/// Identity of the job that a journal belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Begun {
    /// Digest of source and options.
    pub(crate) fingerprint: Short,
    /// The new tree under construction, if the destination did not exist.
    pub(crate) aside: Option<Built>,
}

/// Tree under construction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Built {
    /// Its temporary name.
    pub(crate) name: OsString,
    /// Identifies it, also after it got the destination's name.
    pub(crate) id: FileId,
}

/// Large file without a note of its end: its temporary file, and the chunks that were copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// Digest of the source's state.
    pub(crate) source: Short,
    /// Name of the temporary file in the destination's directory.
    pub(crate) name: OsString,
    pub(crate) id: FileId,
    pub(crate) chunk_bytes: u64,
    /// Path from the root.
    pub(crate) path: OsString,
    pub(crate) chunks: Vec<ChunkDigest>,
}

impl Part {
    /// Whether it belongs to a source in this state, in chunks of this size.
    pub(crate) fn is_of(&self, source: Short, chunk_bytes: u64) -> bool {
        self.source == source && self.chunk_bytes == chunk_bytes
    }
}

/// Contents of a journal.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// Identity of the journal file itself. A copy of a journal states another file's.
    pub(crate) own: Option<FileId>,
    pub(crate) begun: Option<Begun>,
    /// Whether the unfinished tree was reported to the caller, who may rename or remove it.
    pub(crate) is_kept: bool,
    /// Unfinished files by the digest of their paths.
    pub(crate) parts: HashMap<Short, Part>,
    /// Length of the intact prefix.
    pub(crate) whole_bytes: u64,
}

/// Why a journal cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    Damaged {
        offset: u64,
    },
    /// Another user may have written it.
    Foreign,
    /// Does not state its own identity: it is a copy.
    Copied,
}

fn frame(kind: u32, payload: &[&[u8]]) -> Vec<u8> {
    let length: usize = payload.iter().map(|bytes| bytes.len()).sum();
    let mut bytes = Vec::with_capacity(HEAD_BYTES + length + CHECKSUM_BYTES);
    bytes.extend(MAGIC);
    bytes.extend(kind.to_le_bytes());
    bytes.extend((length as u32).to_le_bytes());
    bytes.extend(short(blake3::hash(&bytes)));
    payload.iter().for_each(|part| bytes.extend(*part));
    bytes.extend(short(blake3::hash(&bytes)));
    bytes
}

/// Encodes the first frame of a journal, which states the journal file's identity.
pub(crate) fn begin_frame(own: FileId, begun: &Begun) -> Vec<u8> {
    let own = own.to_bytes();
    match &begun.aside {
        None => frame(BEGIN, &[&begun.fingerprint, &own]),
        Some(Built { name, id }) => {
            frame(BEGIN, &[&begun.fingerprint, &own, &id.to_bytes(), name.as_encoded_bytes()])
        }
    }
}

fn parse_begun(payload: &[u8]) -> Option<(FileId, Begun)> {
    let (fingerprint, rest) = payload.split_first_chunk()?;
    let (own, rest) = rest.split_first_chunk()?;
    let aside = match rest {
        [] => None,
        built => Some(parse_built(built)?),
    };
    Some((FileId::from_bytes(own), Begun { fingerprint: *fingerprint, aside }))
}

fn parse_built(bytes: &[u8]) -> Option<Built> {
    let (id, name) = bytes.split_first_chunk()?;
    let name = path_bytes::decode(name).filter(|name| !name.is_empty())?;
    Some(Built { name, id: FileId::from_bytes(id) })
}

/// Encodes that the run ended and left the unfinished tree to the caller: no run removes it.
pub(crate) fn kept_frame() -> Vec<u8> {
    frame(KEPT, &[])
}

/// Encodes finished files. `done`: one [`Short`] after another.
pub(crate) fn done_frame(done: &[u8]) -> Vec<u8> {
    frame(DONE, &[done])
}

/// Encodes hard links. `linked`: whole entries written by [`push_link`].
pub(crate) fn linked_frame(linked: &[u8]) -> Vec<u8> {
    frame(LINKED, &[linked])
}

/// Appends the inode of a source that has more names, and the path of its copy.
pub(crate) fn push_link(linked: &mut Vec<u8>, inode: u64, path: &OsStr) {
    linked.extend(inode.to_le_bytes());
    linked.extend((path.len() as u32).to_le_bytes());
    linked.extend(path.as_encoded_bytes());
}

fn parse_links(mut rest: &[u8], visitor: &mut impl JournalVisitor) -> Option<()> {
    while let Some((inode, behind)) = rest.split_first_chunk() {
        let (length, behind) = behind.split_first_chunk()?;
        let length = u32::from_le_bytes(*length) as usize;
        let (path, behind) = behind.split_at_checked(length)?;
        visitor.linked(u64::from_le_bytes(*inode), &path_bytes::decode(path)?);
        rest = behind;
    }
    rest.is_empty().then_some(())
}

/// Encodes that parts ended. `ended`: digests of their paths.
pub(crate) fn ended_frame(ended: &[u8]) -> Vec<u8> {
    frame(ENDED, &[ended])
}

/// Encodes further chunks of a part, from number `first` on.
pub(crate) fn chunks_frame(part: &Part, first: u64) -> Vec<u8> {
    let numbers = [part.chunk_bytes, first].map(u64::to_le_bytes).concat();
    let lengths = [part.name.len(), part.path.len()].map(|n| (n as u32).to_le_bytes()).concat();
    let (name, path) = (part.name.as_encoded_bytes(), part.path.as_encoded_bytes());
    let chunks = part.chunks.as_flattened();
    frame(CHUNKS, &[&part.source, &part.id.to_bytes(), &numbers, &lengths, name, path, chunks])
}

fn parse_chunks(payload: &[u8]) -> Option<(u64, Part)> {
    let (source, rest) = payload.split_first_chunk()?;
    let (id, rest) = rest.split_first_chunk()?;
    let (numbers, rest) = rest.split_first_chunk::<16>()?;
    let (lengths, rest) = rest.split_first_chunk::<8>()?;
    let number = |place: usize| numbers[place..place + 8].try_into().map_or(0, u64::from_le_bytes);
    let length = |place: usize| lengths[place..place + 4].try_into().map_or(0, u32::from_le_bytes);
    let (name, rest) = rest.split_at_checked(length(0) as usize)?;
    let (path, rest) = rest.split_at_checked(length(4) as usize)?;
    let (chunks, rest) = rest.as_chunks::<CHUNK_DIGEST_BYTES>();
    let part = Part {
        source: *source,
        name: path_bytes::decode(name)?,
        id: FileId::from_bytes(id),
        chunk_bytes: number(0),
        path: path_bytes::decode(path)?,
        chunks: chunks.to_vec(),
    };
    (rest.is_empty() && part.chunk_bytes > 0).then_some((number(8), part))
}

/// Returns the key of a part: the digest of its path from the root.
pub(crate) fn part_key(path: &OsStr) -> Short {
    short(blake3::hash(path.as_encoded_bytes()))
}

/// Receives the entries that are too many to keep in memory, frame by frame.
pub(crate) trait JournalVisitor {
    /// Receives finished files.
    fn done(&mut self, _files: &[Short]) {}

    /// Receives a file with several names: inode of the source, and path of its copy.
    fn linked(&mut self, _inode: u64, _path: &OsStr) {}
}

/// Ignores all entries.
impl JournalVisitor for () {}

impl Contents {
    /// Adds a whole frame. `None`: the frame is invalid at this place.
    fn take(&mut self, kind: u32, payload: &[u8], visitor: &mut impl JournalVisitor) -> Option<()> {
        match (kind, self.begun.is_some()) {
            (BEGIN, false) => {
                let (own, begun) = parse_begun(payload)?;
                (self.own, self.begun) = (Some(own), Some(begun));
            }
            (DONE, true) => visitor.done(shorts(payload)?),
            (ENDED, true) => {
                for key in shorts(payload)? {
                    self.parts.remove(key);
                }
            }
            (CHUNKS, true) => {
                let (first, part) = parse_chunks(payload)?;
                add_chunks(&mut self.parts, first, part);
            }
            (LINKED, true) => parse_links(payload, visitor)?,
            (KEPT, true) if payload.is_empty() => self.is_kept = true,
            _ => return None,
        }
        Some(())
    }
}

/// Adds the chunks of a part from number `first` on to those that are known.
pub(crate) fn add_chunks(parts: &mut HashMap<Short, Part>, first: u64, part: Part) {
    let key = part_key(&part.path);
    let first = usize::try_from(first).unwrap_or(usize::MAX);
    match parts.get_mut(&key) {
        Some(known) if known.is_same(&part) && first <= known.chunks.len() => {
            known.chunks.truncate(first);
            known.chunks.extend(part.chunks);
        }
        // Chunks without those before them are useless.
        _ if first > 0 => {
            parts.remove(&key);
        }
        _ => {
            parts.insert(key, part);
        }
    }
}

impl Part {
    fn is_same(&self, other: &Part) -> bool {
        let of = |part: &Part| (part.source, part.id, part.chunk_bytes);
        of(self) == of(other) && self.name == other.name
    }
}

fn shorts(payload: &[u8]) -> Option<&[Short]> {
    let (all, rest) = payload.as_chunks();
    rest.is_empty().then_some(all)
}

/// Returns kind and payload length from a frame's header. `None`: the header is invalid.
fn head(bytes: &[u8]) -> Option<(u32, usize)> {
    let (fields, sum) = bytes.get(..HEAD_BYTES)?.split_at(FIELDS_BYTES);
    let is_intact = fields.starts_with(MAGIC) && short(blake3::hash(fields)) == *sum;
    let number = |place: usize| fields[place..place + 4].try_into().map_or(0, u32::from_le_bytes);
    let (kind, payload_bytes) = (number(4), number(8) as usize);
    (is_intact && payload_bytes <= MAX_BYTES).then_some((kind, payload_bytes))
}

/// Parses a whole journal of `size` bytes. `read` fills a buffer from an offset on, with less only at the
/// end. Holds one frame in memory at a time, besides the contents.
pub(crate) fn parse<E>(
    size: u64,
    mut read: impl FnMut(u64, &mut Vec<u8>, usize) -> Result<(), E>,
    visitor: &mut impl JournalVisitor,
) -> Result<Result<Contents, Unusable>, E> {
    let mut contents = Contents::default();
    let mut bytes = Vec::new();
    let mut at = 0;
    while at < size {
        let damaged = Ok(Err(Unusable::Damaged { offset: at }));
        let left = usize::try_from(size - at).unwrap_or(usize::MAX);
        read(at, &mut bytes, HEAD_BYTES)?;
        if bytes.len() < HEAD_BYTES {
            break;
        }
        let Some((kind, payload_bytes)) = head(&bytes) else {
            // After a crash the file may have its new length without the bytes.
            if at > 0 && is_zero(at, left, &mut bytes, &mut read)? {
                break;
            }
            return damaged;
        };
        let end = HEAD_BYTES + payload_bytes + CHECKSUM_BYTES;
        read(at, &mut bytes, end)?;
        if bytes.len() < end {
            break;
        }
        let (body, sum) = bytes.split_at(end - CHECKSUM_BYTES);
        if short(blake3::hash(body)) != *sum {
            if left == end && at > 0 {
                break;
            }
            return damaged;
        }
        if contents.take(kind, &body[HEAD_BYTES..], visitor).is_none() {
            return damaged;
        }
        at += end as u64;
        contents.whole_bytes = at;
    }
    Ok(Ok(contents))
}

fn is_zero<E>(
    from: u64,
    length: usize,
    bytes: &mut Vec<u8>,
    read: &mut impl FnMut(u64, &mut Vec<u8>, usize) -> Result<(), E>,
) -> Result<bool, E> {
    let mut done = 0;
    while done < length {
        read(from + done as u64, bytes, (length - done).min(MAX_BYTES))?;
        if bytes.is_empty() || bytes.iter().any(|byte| *byte != 0) {
            return Ok(bytes.is_empty());
        }
        done += bytes.len();
    }
    Ok(true)
}

/// Fuzzes parsing (`fuzz/`): the bytes as a journal, and as payload of frames with valid checksums.
#[cfg(fuzzing)]
pub fn fuzz(bytes: &[u8]) {
    check(bytes);
    let (kind, payload) = bytes.split_first().unwrap_or((&0, &[]));
    let begun = Begun { fingerprint: [0; CHECKSUM_BYTES], aside: None };
    let framed = frame((*kind).into(), &[payload]);
    check(&framed);
    let own = FileId { inode: 1, birth: None };
    check(&[begin_frame(own, &begun), framed.clone(), framed].concat());
}

/// Checks that the intact prefix alone parses to the same contents.
#[cfg(fuzzing)]
fn check(bytes: &[u8]) {
    if let Ok(parsed) = parse_bytes(bytes) {
        let whole = parsed.0.whole_bytes;
        assert!(whole <= bytes.len() as u64);
        assert_eq!(parse_bytes(&bytes[..whole as usize]), Ok(parsed));
    }
}

/// Counts finished files.
#[cfg(fuzzing)]
#[derive(Debug, Default, PartialEq, Eq)]
struct Count(usize);

#[cfg(fuzzing)]
impl JournalVisitor for Count {
    fn done(&mut self, files: &[Short]) {
        self.0 += files.len();
    }
}

#[cfg(fuzzing)]
fn parse_bytes(bytes: &[u8]) -> Result<(Contents, Count), Unusable> {
    let read = |at: u64, buffer: &mut Vec<u8>, length: usize| {
        let rest = bytes.get(at as usize..).unwrap_or(&[]);
        buffer.clear();
        buffer.extend_from_slice(&rest[..length.min(rest.len())]);
        Ok::<(), std::convert::Infallible>(())
    };
    let mut count = Count::default();
    let Ok(parsed) = parse(bytes.len() as u64, read, &mut count);
    Ok((parsed?, count))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;
    use uncopy_os::file::Timestamp;

    /// Collects all entries.
    #[derive(Default)]
    struct Collected {
        done: Vec<Short>,
        linked: Vec<(u64, OsString)>,
    }

    impl JournalVisitor for Collected {
        fn done(&mut self, files: &[Short]) {
            self.done.extend(files);
        }

        fn linked(&mut self, inode: u64, path: &OsStr) {
            self.linked.push((inode, path.to_owned()));
        }
    }

    fn parse(bytes: &[u8]) -> Result<Contents, Unusable> {
        parse_with(bytes, &mut ())
    }

    /// Counts the finished files.
    fn count_done(bytes: &[u8]) -> usize {
        collect(bytes).unwrap().1.done.len()
    }

    fn collect(bytes: &[u8]) -> Result<(Contents, Collected), Unusable> {
        let mut collected = Collected::default();
        let contents = parse_with(bytes, &mut collected)?;
        Ok((contents, collected))
    }

    fn parse_with(bytes: &[u8], visitor: &mut impl JournalVisitor) -> Result<Contents, Unusable> {
        let read = |at, buffer: &mut Vec<u8>, length: usize| {
            let rest = &bytes[at as usize..];
            *buffer = rest[..length.min(rest.len())].to_vec();
            Ok::<(), std::convert::Infallible>(())
        };
        super::parse(bytes.len() as u64, read, visitor).unwrap()
    }

    fn id(inode: u64) -> FileId {
        FileId { inode, birth: Some(Timestamp { seconds: 1 << 33, nanoseconds: 5 }) }
    }

    /// Encodes the first frame of a journal whose inode is 5.
    fn begin_frame(begun: &Begun) -> Vec<u8> {
        super::begin_frame(id(5), begun)
    }

    fn begun() -> Begun {
        let built = Built { name: ".uncopy-x.tree".into(), id: id(1 << 40) };
        Begun { fingerprint: [7; 16], aside: Some(built) }
    }

    fn part(chunks: u8) -> Part {
        Part {
            source: [3; 16],
            name: ".uncopy-y.tmp".into(),
            id: id(12),
            chunk_bytes: 8 << 20,
            path: OsString::from_vec(b"a/\xff".to_vec()),
            chunks: (0..chunks).map(|n| [n; 32]).collect(),
        }
    }

    fn written() -> Vec<u8> {
        let first: Vec<u8> = (0..3 * 16).map(|n| 200 - n).collect();
        [begin_frame(&begun()), done_frame(&first), done_frame(&[1; 16])].concat()
    }

    #[test]
    fn written_frames_are_read_back() {
        let bytes = written();
        let (contents, collected) = collect(&bytes).unwrap();
        assert_eq!((contents.own, contents.begun), (Some(id(5)), Some(begun())));
        assert_eq!((collected.done.len(), collected.done[3]), (4, [1; 16]));
        assert_eq!(contents.whole_bytes, bytes.len() as u64);
        assert_eq!(parse(&[]), Ok(Contents::default()));
        let found = Begun { aside: None, ..begun() };
        assert_eq!(parse(&begin_frame(&found)).unwrap().begun, Some(found));
    }

    #[test]
    fn chunks_follow_one_another_until_their_file_is_done() {
        let later = Part { chunks: vec![[9; 32]], ..part(0) };
        let mut bytes = [begin_frame(&begun()), chunks_frame(&part(3), 0)].concat();
        bytes.extend(chunks_frame(&later, 2));
        let parts = parse(&bytes).unwrap().parts;
        let found = &parts[&part_key(&part(0).path)];
        assert_eq!(found.chunks, [[0; 32], [1; 32], [9; 32]]);
        assert_eq!((&found.path, &found.name, found.id), (&later.path, &later.name, id(12)));
        // After a gap, and of another temporary file.
        let other = Part { id: id(13), ..later.clone() };
        for stray in [chunks_frame(&later, 4), chunks_frame(&other, 1)] {
            assert!(parse(&[bytes.clone(), stray].concat()).unwrap().parts.is_empty());
        }
        let ended = ended_frame(&part_key(&part(0).path));
        assert!(parse(&[bytes, ended].concat()).unwrap().parts.is_empty());
    }

    #[test]
    fn files_with_several_names_are_visited() {
        let mut links = Vec::new();
        push_link(&mut links, 7, OsStr::new("a/b"));
        push_link(&mut links, u64::MAX, OsStr::new(""));
        let begin = begin_frame(&begun());
        let (_, collected) = collect(&[begin.clone(), linked_frame(&links)].concat()).unwrap();
        assert_eq!(collected.linked, [(7, "a/b".into()), (u64::MAX, "".into())]);
        links.pop();
        assert!(parse(&[begin.clone(), linked_frame(&links[..15])].concat()).is_ok());
        assert!(parse(&[begin, linked_frame(&links[..20])].concat()).is_err());
    }

    #[test]
    fn ignored_entries_are_checked_all_the_same() {
        let bytes = written();
        assert_eq!(parse(&bytes), Ok(collect(&bytes).unwrap().0));
        let mut damaged = bytes;
        damaged[100] ^= 1;
        assert!(parse(&damaged).is_err());
    }

    #[test]
    fn a_frame_that_was_cut_off_is_dropped() {
        let bytes = written();
        let last = done_frame(&[1; 16]).len();
        for cut in 1..last {
            let (contents, collected) = collect(&bytes[..bytes.len() - cut]).unwrap();
            assert_eq!(collected.done.len(), 3, "{cut}");
            assert_eq!(contents.whole_bytes, (bytes.len() - last) as u64, "{cut}");
        }
        // The length reached the disk, and the bytes did not.
        let mut empty = bytes[..bytes.len() - last].to_vec();
        empty.resize(bytes.len(), 0);
        assert_eq!(count_done(&empty), 3);
    }

    #[test]
    fn damage_is_detected_at_every_byte() {
        let bytes = written();
        let last = bytes.len() - done_frame(&[1; 16]).len();
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x10;
            match parse(&damaged) {
                Err(Unusable::Damaged { offset }) => {
                    assert!(place < last + HEAD_BYTES && offset <= place as u64, "{place}");
                }
                // The last frame is dropped.
                Ok(_) => {
                    assert!(place >= last + HEAD_BYTES, "{place}");
                    assert_eq!(count_done(&damaged), 3, "{place}");
                }
                Err(_) => panic!("{place}"),
            }
        }
    }

    #[test]
    fn a_tree_that_was_left_to_the_caller_is_kept() {
        let begin = begin_frame(&begun());
        assert!(!parse(&begin).unwrap().is_kept);
        let contents =
            parse(&[begin.clone(), kept_frame(), done_frame(&[1; 16])].concat()).unwrap();
        assert!(contents.is_kept);
        assert_eq!(contents.begun, Some(begun()));
        for frames in [kept_frame(), [begin, frame(KEPT, &[&[0]])].concat()] {
            assert!(parse(&frames).is_err());
        }
    }

    #[test]
    fn invalid_contents_with_valid_checksums_are_damage() {
        let begin = begin_frame(&begun());
        let short_chunks = frame(CHUNKS, &[&[0; 52]]);
        let endless = frame(CHUNKS, &[&[0; 52], &[0xff; 8]]);
        for frame in [begin.clone(), done_frame(&[1; 15]), short_chunks, endless, frame(77, &[])] {
            assert!(parse(&[begin.clone(), frame].concat()).is_err());
        }
        for built in [&[1; 7][..], &[1; 20 + 7], &[1; 20 + 20]] {
            assert!(parse(&frame(BEGIN, &[&[7; 16], built])).is_err());
        }
        assert!(parse(&done_frame(&[1; 16])).is_err());
    }
}
