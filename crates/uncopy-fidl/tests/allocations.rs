//! Allocations: encoding and views allocate nothing, and owned values not much more than the
//! message's length. A separate program, because its allocator counts for the whole process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Mutex, PoisonError};

use testbed::CountingAllocator;
use uncopy_fidl::{
    Encode, Encoder, Fidl, GatherOptions, Header, NoHandle, RegionList, decode, decode_owned,
    encode,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

/// Held by each test, because the allocator counts for all threads.
static EXCLUSIVE: Mutex<()> = Mutex::new(());

/// Counts the allocations of `rounds` rounds, after one that warms up the buffers.
fn counted(rounds: u64, mut round: impl FnMut()) -> u64 {
    round();
    let before = ALLOCATOR.allocations();
    (0..rounds).for_each(|_| round());
    ALLOCATOR.allocations() - before
}

#[derive(Debug, PartialEq, Fidl)]
struct Page {
    title: String,
    body: Vec<u8>,
    rows: Vec<Row>,
    next: Option<Box<Row>>,
    style: Style,
}

#[derive(Debug, PartialEq, Fidl)]
struct Row {
    cells: Vec<String>,
}

#[derive(Debug, PartialEq, Fidl)]
#[fidl(table)]
struct Style {
    #[fidl(ordinal = 2)]
    color: Option<u32>,
    #[fidl(ordinal = 3)]
    font: Option<String>,
}

fn page(bytes: usize) -> Page {
    let row = || Row { cells: vec!["a".repeat(bytes % 50), "b".to_owned()] };
    Page {
        title: "t".repeat(10),
        body: vec![7; bytes],
        rows: (0..20).map(|_| row()).collect(),
        next: Some(Box::new(row())),
        style: Style { color: Some(5), font: Some("mono".repeat(100)) },
    }
}

#[test]
fn messages_allocate_nothing_once_buffers_are_warm() {
    let _exclusive = EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(counted(10, || drop(vec![1])), 10, "the allocator counts");
    let header = Header::one_way(7);
    let mut encoder = Encoder::new();
    let pages: Vec<Page> = [40_000, 0, 100, 4096].into_iter().map(page).collect();
    let linear = counted(100, || {
        for page in &pages {
            assert!(encoder.linear_message(&header, page).unwrap().len() > 16);
        }
    });
    assert_eq!(linear, 0);
    let mut encoder = Encoder::new();
    let gathered = counted(100, || {
        for page in &pages {
            let mut list = RegionList::new();
            let regions = encoder.gather_message(&header, page, &mut list).unwrap();
            assert!(!regions.as_slices().is_empty());
        }
    });
    assert_eq!(gathered, 0);
}

#[test]
fn long_lists_allocate_nothing_if_they_are_recycled() {
    let _exclusive = EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner);
    let options = GatherOptions::new().min_body_bytes(1).max_regions(8192);
    let mut encoder = Encoder::with_options(options).unwrap();
    let mut kept: RegionList<'static> = RegionList::new();
    let value = vec![vec![1u8; 12]; 1000];
    let gathered = counted(100, || {
        let mut list = std::mem::take(&mut kept).recycle();
        let regions = encoder.gather(&value, &mut list).unwrap();
        assert_eq!(regions.as_slices().len(), 2001);
        kept = list.recycle();
    });
    assert_eq!(gathered, 0);
}

#[test]
fn views_allocate_nothing() {
    let _exclusive = EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes = encode(&page(4096)).unwrap();
    let seen = counted(100, || {
        let view = decode::<Page>(&bytes).unwrap();
        let cells = view.rows.iter().flat_map(|row| row.cells);
        assert_eq!(cells.map(str::len).sum::<usize>(), 20 * (4096 % 50 + 1));
        assert_eq!(view.next.unwrap().get().cells.len(), 2);
        assert_eq!(view.style.font.unwrap().len(), 400);
    });
    assert_eq!(seen, 0);
}

/// Returns the bytes that decoding a value allocates; 0 if it is refused.
fn cost<T: uncopy_fidl::FromView<NoHandle>>(bytes: &[u8]) -> usize {
    let before = ALLOCATOR.live_bytes();
    let value = decode_owned::<T, NoHandle>(bytes, vec![]).ok();
    // Other threads of the harness may free memory meanwhile.
    let cost = ALLOCATOR.live_bytes().saturating_sub(before);
    drop(value);
    cost
}

/// A count larger than the message allocates nothing; items that are there allocate in proportion.
#[test]
fn a_message_cannot_cause_allocations_beyond_its_size() {
    let _exclusive = EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner);
    for count in [9u64, 1 << 16, u64::from(u32::MAX), u64::MAX] {
        let mut bytes = count.to_le_bytes().to_vec();
        bytes.extend([0xff; 8]);
        bytes.extend([0; 8]);
        assert!(cost::<Vec<u8>>(&bytes) < 1024 && cost::<Vec<Row>>(&bytes) < 1024);
    }
    let full = vec![Vec::<u8>::new(); 4000];
    let bytes = encode(&full).unwrap();
    assert!(cost::<Vec<Vec<u8>>>(&bytes) <= 2 * bytes.len());
    assert_eq!(encode_len(&full), bytes.len());
}

fn encode_len<T: Encode>(value: &T) -> usize {
    Encoder::new().linear(value).unwrap().len()
}
