//! Effects of a copy on the page cache.

use std::path::Path;
use std::time::{Duration, Instant};

use testbed::witness::{allocated_bytes, cached_bytes};
use testbed::{Case, Content, Need, Place, Receipt, drop_from_cache};

use crate::both::{Form, cases_over};
use crate::cp::witnessed::Pair;
use crate::cp::{DIRECT, EVERYWHERE, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    cases_over![
        Form::ALL;
        [Need::Tool("fincore")] keep_leaves_the_copy_in_the_cache,
        [Need::Tool("fincore")] keep_holds_with_durable_and_cpu,
        [] keep_and_direct_exclude_each_other,
        [Need::Tool("fincore"), Need::At(Place::Ext4)] skip_leaves_nothing_on_ext4,
        [Need::Tool("fincore"), Need::At(Place::Xfs)] skip_leaves_nothing_on_xfs,
        [Need::Tool("fincore"), Need::At(Place::Btrfs)] skip_leaves_nothing_on_btrfs,
        [Need::Tool("fincore"), Need::At(Place::Ext4), Need::At(Place::Overlay)]
            skip_leaves_a_cached_source_alone,
    ]
}

const LENGTH: u64 = (40 << 20) + 1234;
const PAGE: u64 = 4096;

fn keep_leaves_the_copy_in_the_cache(form: Form) {
    for program in [cp()].into_iter().chain(EVERYWHERE.map(cp_by)) {
        let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
        let receipt = pair.succeed(program.arg("--cache=keep"));
        assert_eq!(receipt.by("direct"), 0, "{}", receipt.value());
        assert!(is_cached(&pair, &receipt), "{}", receipt.value());
        let refusal = receipt.refusal("direct");
        assert!(refusal.is_none_or(|refusal| refusal.errno.is_none()), "{}", receipt.value());
    }
}

fn keep_holds_with_durable_and_cpu(form: Form) {
    for switch in ["--durable", "--prefer=cpu"] {
        let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
        let receipt = pair.succeed(cp().args([switch, "--cache=keep"]));
        assert_eq!(receipt.by("direct"), 0, "{}", receipt.value());
        // Where copy_file_range may share, it stands before direct writes anyway, whatever it did.
        if receipt.by("splice") + receipt.by("read_write") > 0 {
            let refusal = receipt.refusal("direct").expect("why not, although it is cheaper?");
            assert!(refusal.reason.contains("cache"), "{}", receipt.value());
        }
        assert!(is_cached(&pair, &receipt), "{}", receipt.value());
    }
}

/// All that was copied; what is shared was neither read nor written.
fn is_cached(pair: &Pair, receipt: &Receipt) -> bool {
    cached_bytes(&pair.destination) + receipt.at("shared") >= LENGTH
}

fn keep_and_direct_exclude_each_other(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let run = pair.command(cp_by(DIRECT).arg("--cache=keep")).run();
    assert!(run.failed(2).contains("--cache=keep"), "{}", run.stderr);
    pair.assert_nothing_left();
}

/// Nothing of the copy, and nothing of a source that was not there before.
fn skip_leaves_nothing(form: Form, place: Place) {
    for program in [cp()].into_iter().chain(EVERYWHERE.map(cp_by)) {
        let pair = Pair::empty_of(form, place, place);
        write_uncached(&pair.source);
        let receipt = pair.succeed(program.arg("--cache=skip"));
        let (copy, source) = (cached_bytes(&pair.destination), cached_bytes(&pair.source));
        // The last page of a file may stay: it is not whole.
        assert!(copy <= PAGE, "{copy} bytes of the copy: {}", receipt.value());
        assert!(source <= PAGE, "{source} bytes of the source: {}", receipt.value());
        pair.assert_copied();
    }
}

/// Makes a source of which nothing is in the cache. A page may be held a little longer than `fsync` takes:
/// one was on btrfs.
fn write_uncached(path: &Path) {
    let file = Content::dense(LENGTH).write(path);
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        drop_from_cache(&file);
        let cached = cached_bytes(path);
        if cached == 0 {
            return;
        }
        assert!(
            Instant::now() < patience,
            "{cached} bytes of {} stay in the cache",
            path.display()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn skip_leaves_nothing_on_ext4(form: Form) {
    skip_leaves_nothing(form, Place::Ext4);
}

fn skip_leaves_nothing_on_xfs(form: Form) {
    skip_leaves_nothing(form, Place::Xfs);
}

fn skip_leaves_nothing_on_btrfs(form: Form) {
    skip_leaves_nothing(form, Place::Btrfs);
}

/// Somebody may be using it. On an overlay its pages are those of another file, and it was thrown out.
fn skip_leaves_a_cached_source_alone(form: Form) {
    for place in [Place::Ext4, Place::Overlay] {
        let pair = Pair::empty_of(form, place, Place::Ext4);
        drop(Content::dense(LENGTH).write(&pair.source));
        let _ = allocated_bytes(&pair.source);
        // A system that is short of memory may have taken pages back.
        drop(std::fs::read(&pair.source).unwrap());
        assert!(cached_bytes(&pair.source) >= LENGTH, "{place:?}");
        let _ = pair.succeed(cp().arg("--cache=skip"));
        let cached = cached_bytes(&pair.source);
        assert!(cached >= LENGTH, "{place:?}: the source was thrown out of the cache");
        assert!(cached_bytes(&pair.destination) <= PAGE, "{place:?}");
    }
}
