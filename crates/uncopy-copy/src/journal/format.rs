//! What a journal looks like on disk: frames with checksums, one after the other.
//!
//! Numbers are little-endian. A frame is magic number, kind, length of what follows and a checksum of
//! these (without it a length that is damaged would look like a frame that was cut off, and hide all
//! behind it), then what follows, and a checksum of the whole.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::parts::{CHUNK_DIGEST_BYTES, ChunkDigest};
use uncopy_os::file::FileId;

/// The first bytes of every frame, with the version of the format.
const MAGIC: &[u8; 4] = b"UJ5\n";
const CHECKSUM_BYTES: usize = 16;
const FIELDS_BYTES: usize = 12;
const HEAD_BYTES: usize = FIELDS_BYTES + CHECKSUM_BYTES;
/// What a frame takes besides what it holds.
pub(crate) const FRAME_BYTES: u64 = (HEAD_BYTES + CHECKSUM_BYTES) as u64;
/// No frame is longer: what says so is damaged.
pub(crate) const MOST_BYTES: usize = 1 << 20;

const BEGIN: u32 = 1;
const DONE: u32 = 2;
const CHUNKS: u32 = 3;
const ENDED: u32 = 4;
const LINKED: u32 = 5;
const KEPT: u32 = 6;

/// A digest of so many bytes names a file, or a state of one.
pub(crate) type Short = [u8; CHECKSUM_BYTES];

/// The first bytes of a BLAKE3 digest.
pub(crate) fn short(hash: blake3::Hash) -> Short {
    let mut bytes = [0; CHECKSUM_BYTES];
    bytes.copy_from_slice(&hash.as_bytes()[..CHECKSUM_BYTES]);
    bytes
}

/// Which job a journal belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Begun {
    /// Of source and options.
    pub(crate) fingerprint: Short,
    /// The tree that is being built, if the destination was not there.
    pub(crate) aside: Option<Built>,
}

/// A tree that is being built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Built {
    /// Its temporary name.
    pub(crate) name: OsString,
    /// By which it is known, also when it has the destination's.
    pub(crate) id: FileId,
}

/// A large file that was not finished: the temporary file that it is built in, and the chunks that
/// were flushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// The source as it was.
    pub(crate) source: Short,
    /// Of the temporary file, in the directory of the destination.
    pub(crate) name: OsString,
    pub(crate) id: FileId,
    pub(crate) chunk_bytes: u64,
    /// From the root.
    pub(crate) path: OsString,
    pub(crate) chunks: Vec<ChunkDigest>,
}

impl Part {
    /// It is of a source that is so, in chunks of this size.
    pub(crate) fn is_of(&self, source: Short, chunk_bytes: u64) -> bool {
        self.source == source && self.chunk_bytes == chunk_bytes
    }
}

/// What a journal says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// Which file the journal was when it was begun. A copy of it is another one.
    pub(crate) own: Option<FileId>,
    pub(crate) begun: Option<Begun>,
    /// The tree that is being built was told to the caller, who may rename or remove it.
    pub(crate) is_kept: bool,
    /// By the digest of their paths.
    pub(crate) parts: HashMap<Short, Part>,
    /// Up to here it is whole.
    pub(crate) whole_bytes: u64,
}

/// Why a journal cannot be gone by.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    Damaged {
        offset: u64,
    },
    /// It is no file of the caller's alone, and may say anything.
    Foreign,
    /// It does not say that it is this file.
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

/// The first frame of the journal that is this file.
pub(crate) fn begin_frame(own: FileId, begun: &Begun) -> Vec<u8> {
    let own = own.to_bytes();
    match &begun.aside {
        None => frame(BEGIN, &[&begun.fingerprint, &own]),
        Some(Built { name, id }) => {
            frame(BEGIN, &[&begun.fingerprint, &own, &id.to_bytes(), name.as_bytes()])
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
    let name = (!name.is_empty()).then(|| OsString::from_vec(name.to_vec()))?;
    Some(Built { name, id: FileId::from_bytes(id) })
}

/// The run came to its end and left the tree that is being built to the caller: no run removes it.
pub(crate) fn kept_frame() -> Vec<u8> {
    frame(KEPT, &[])
}

/// `done`: [`Short`] after [`Short`].
pub(crate) fn done_frame(done: &[u8]) -> Vec<u8> {
    frame(DONE, &[done])
}

/// `linked`: what [`push_link`] put there, of whole links.
pub(crate) fn linked_frame(linked: &[u8]) -> Vec<u8> {
    frame(LINKED, &[linked])
}

/// Adds the inode of a source that has further names to a frame, and the path that it was copied to.
pub(crate) fn push_link(linked: &mut Vec<u8>, inode: u64, path: &OsStr) {
    linked.extend(inode.to_le_bytes());
    linked.extend((path.len() as u32).to_le_bytes());
    linked.extend(path.as_bytes());
}

fn parse_links(mut rest: &[u8], told: &mut impl Told) -> Option<()> {
    while let Some((inode, behind)) = rest.split_first_chunk() {
        let (length, behind) = behind.split_first_chunk()?;
        let length = u32::from_le_bytes(*length) as usize;
        let (path, behind) = behind.split_at_checked(length)?;
        told.linked(u64::from_le_bytes(*inode), OsStr::from_bytes(path));
        rest = behind;
    }
    rest.is_empty().then_some(())
}

/// `ended`: digests of the paths of parts that are no more.
pub(crate) fn ended_frame(ended: &[u8]) -> Vec<u8> {
    frame(ENDED, &[ended])
}

/// More chunks of a part, from number `first` on.
pub(crate) fn chunks_frame(part: &Part, first: u64) -> Vec<u8> {
    let numbers = [part.chunk_bytes, first].map(u64::to_le_bytes).concat();
    let lengths = [part.name.len(), part.path.len()].map(|n| (n as u32).to_le_bytes()).concat();
    let (name, path) = (part.name.as_bytes(), part.path.as_bytes());
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
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let part = Part {
        source: *source,
        name: text(name),
        id: FileId::from_bytes(id),
        chunk_bytes: number(0),
        path: text(path),
        chunks: chunks.to_vec(),
    };
    (rest.is_empty() && part.chunk_bytes > 0).then_some((number(8), part))
}

/// By what a part is found: the digest of its path from the root.
pub(crate) fn part_key(path: &OsStr) -> Short {
    short(blake3::hash(path.as_bytes()))
}

/// Who is told of what there is too much of to be kept for everybody, frame by frame.
pub(crate) trait Told {
    /// These files are done.
    fn done(&mut self, _files: &[Short]) {}

    /// A file with several names: inode of the source, and the path that it was copied to.
    fn linked(&mut self, _inode: u64, _path: &OsStr) {}
}

/// Nobody.
impl Told for () {}

impl Contents {
    /// Takes in a whole frame; `None`: it cannot stand there.
    fn take(&mut self, (kind, payload): (u32, &[u8]), told: &mut impl Told) -> Option<()> {
        match (kind, self.begun.is_some()) {
            (BEGIN, false) => {
                let (own, begun) = parse_begun(payload)?;
                (self.own, self.begun) = (Some(own), Some(begun));
            }
            (DONE, true) => told.done(shorts(payload)?),
            (ENDED, true) => {
                for key in shorts(payload)? {
                    self.parts.remove(key);
                }
            }
            (CHUNKS, true) => {
                let (first, part) = parse_chunks(payload)?;
                self.take_chunks(first, part);
            }
            (LINKED, true) => parse_links(payload, told)?,
            (KEPT, true) if payload.is_empty() => self.is_kept = true,
            _ => return None,
        }
        Some(())
    }

    fn take_chunks(&mut self, first: u64, part: Part) {
        let key = part_key(&part.path);
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        match self.parts.get_mut(&key) {
            Some(known) if known.is_same(&part) && first <= known.chunks.len() => {
                known.chunks.truncate(first);
                known.chunks.extend(part.chunks);
            }
            // Of chunks that nobody knows the beginning of nothing can be made.
            _ if first > 0 => {
                self.parts.remove(&key);
            }
            _ => {
                self.parts.insert(key, part);
            }
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

/// Kind and length of what follows, of a frame that begins so; `None` if it does not.
fn head(bytes: &[u8]) -> Option<(u32, usize)> {
    let (fields, sum) = bytes.get(..HEAD_BYTES)?.split_at(FIELDS_BYTES);
    let is_intact = fields.starts_with(MAGIC) && short(blake3::hash(fields)) == *sum;
    let number = |place: usize| fields[place..place + 4].try_into().map_or(0, u32::from_le_bytes);
    let (kind, payload_bytes) = (number(4), number(8) as usize);
    (is_intact && payload_bytes <= MOST_BYTES).then_some((kind, payload_bytes))
}

/// Reads a whole journal of `size` bytes. `read` fills a buffer from an offset on, and gives
/// less only at the end. Memory for one frame is taken at a time, besides what they say.
pub(crate) fn parse<E>(
    size: u64,
    mut read: impl FnMut(u64, &mut Vec<u8>, usize) -> Result<(), E>,
    told: &mut impl Told,
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
            // A crash may leave the length of the last frames without their bytes.
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
        if contents.take((kind, &body[HEAD_BYTES..]), told).is_none() {
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
        read(from + done as u64, bytes, (length - done).min(MOST_BYTES))?;
        if bytes.is_empty() || bytes.iter().any(|byte| *byte != 0) {
            return Ok(bytes.is_empty());
        }
        done += bytes.len();
    }
    Ok(true)
}

/// For `fuzz/`: these bytes as a journal, and as the payload of frames whose checksums are right.
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

/// What is whole of a journal says the same without the rest.
#[cfg(fuzzing)]
fn check(bytes: &[u8]) {
    if let Ok(parsed) = parse_bytes(bytes) {
        let whole = parsed.0.whole_bytes;
        assert!(whole <= bytes.len() as u64);
        assert_eq!(parse_bytes(&bytes[..whole as usize]), Ok(parsed));
    }
}

/// What is told of files that are done.
#[cfg(fuzzing)]
#[derive(Debug, Default, PartialEq, Eq)]
struct Count(usize);

#[cfg(fuzzing)]
impl Told for Count {
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
    use super::*;
    use uncopy_os::file::Timestamp;

    /// What is told.
    #[derive(Default)]
    struct Heard {
        done: Vec<Short>,
        linked: Vec<(u64, OsString)>,
    }

    impl Told for Heard {
        fn done(&mut self, files: &[Short]) {
            self.done.extend(files);
        }

        fn linked(&mut self, inode: u64, path: &OsStr) {
            self.linked.push((inode, path.to_owned()));
        }
    }

    fn parse(bytes: &[u8]) -> Result<Contents, Unusable> {
        tell(bytes, &mut ())
    }

    /// How many files are done.
    fn count_done(bytes: &[u8]) -> usize {
        hear(bytes).unwrap().1.done.len()
    }

    fn hear(bytes: &[u8]) -> Result<(Contents, Heard), Unusable> {
        let mut heard = Heard::default();
        let contents = tell(bytes, &mut heard)?;
        Ok((contents, heard))
    }

    fn tell(bytes: &[u8], told: &mut impl Told) -> Result<Contents, Unusable> {
        let read = |at, buffer: &mut Vec<u8>, length: usize| {
            let rest = &bytes[at as usize..];
            *buffer = rest[..length.min(rest.len())].to_vec();
            Ok::<(), std::convert::Infallible>(())
        };
        super::parse(bytes.len() as u64, read, told).unwrap()
    }

    fn id(inode: u64) -> FileId {
        FileId { inode, birth: Some(Timestamp { seconds: 1 << 33, nanoseconds: 5 }) }
    }

    /// The first frame of a journal whose inode is 5.
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
    fn what_is_written_is_read() {
        let bytes = written();
        let (contents, heard) = hear(&bytes).unwrap();
        assert_eq!((contents.own, contents.begun), (Some(id(5)), Some(begun())));
        assert_eq!((heard.done.len(), heard.done[3]), (4, [1; 16]));
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
        // Behind a gap, and of another temporary file.
        let other = Part { id: id(13), ..later.clone() };
        for stray in [chunks_frame(&later, 4), chunks_frame(&other, 1)] {
            assert!(parse(&[bytes.clone(), stray].concat()).unwrap().parts.is_empty());
        }
        let ended = ended_frame(&part_key(&part(0).path));
        assert!(parse(&[bytes, ended].concat()).unwrap().parts.is_empty());
    }

    #[test]
    fn files_with_several_names_are_told() {
        let mut links = Vec::new();
        push_link(&mut links, 7, OsStr::new("a/b"));
        push_link(&mut links, u64::MAX, OsStr::new(""));
        let begin = begin_frame(&begun());
        let (_, heard) = hear(&[begin.clone(), linked_frame(&links)].concat()).unwrap();
        assert_eq!(heard.linked, [(7, "a/b".into()), (u64::MAX, "".into())]);
        links.pop();
        assert!(parse(&[begin.clone(), linked_frame(&links[..15])].concat()).is_ok());
        assert!(parse(&[begin, linked_frame(&links[..20])].concat()).is_err());
    }

    #[test]
    fn what_nobody_is_told_of_is_checked_all_the_same() {
        let bytes = written();
        assert_eq!(parse(&bytes), Ok(hear(&bytes).unwrap().0));
        let mut damaged = bytes;
        damaged[100] ^= 1;
        assert!(parse(&damaged).is_err());
    }

    #[test]
    fn a_frame_that_was_cut_off_is_dropped() {
        let bytes = written();
        let last = done_frame(&[1; 16]).len();
        for cut in 1..last {
            let (contents, heard) = hear(&bytes[..bytes.len() - cut]).unwrap();
            assert_eq!(heard.done.len(), 3, "{cut}");
            assert_eq!(contents.whole_bytes, (bytes.len() - last) as u64, "{cut}");
        }
        // Its length came to the disk, and its bytes did not.
        let mut empty = bytes[..bytes.len() - last].to_vec();
        empty.resize(bytes.len(), 0);
        assert_eq!(count_done(&empty), 3);
    }

    #[test]
    fn damage_is_noticed_wherever_it_is() {
        let bytes = written();
        let last = bytes.len() - done_frame(&[1; 16]).len();
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x10;
            match parse(&damaged) {
                Err(Unusable::Damaged { offset }) => {
                    assert!(place < last + HEAD_BYTES && offset <= place as u64, "{place}");
                }
                // The last frame is not believed.
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
    fn nonsense_with_right_checksums_is_damage() {
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
