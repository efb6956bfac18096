//! Copies of Tokio tasks, whose futures are dropped.

use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tempfile::TempDir;
use testbed::{CallPattern, Intercepted, Program, SystemCall, by_extent, seeded};
use tokio::runtime::Builder;
use uncopy::copy::{Contradiction, CopyOptions, Digest, Outcome, copy_file_async};
use uncopy::{Errno, Reason};

/// Directory of a child that drops a copy.
const DIRECTORY: &str = "UNCOPY_TEST_ASYNC_DIRECTORY";

/// Calls that a copy makes on its files.
const CALLS: [SystemCall; 26] = [
    SystemCall::OPENAT,
    SystemCall::OPENAT2,
    SystemCall::STATX,
    SystemCall::FSTAT,
    SystemCall::FSTATFS,
    SystemCall::NEWFSTATAT,
    SystemCall::IOCTL,
    SystemCall::LSEEK,
    SystemCall::READ,
    SystemCall::PREAD64,
    SystemCall::WRITE,
    SystemCall::PWRITE64,
    SystemCall::COPY_FILE_RANGE,
    SystemCall::SENDFILE,
    SystemCall::SPLICE,
    SystemCall::FTRUNCATE,
    SystemCall::FALLOCATE,
    SystemCall::FCNTL,
    SystemCall::FLOCK,
    SystemCall::FCHMOD,
    SystemCall::FSYNC,
    SystemCall::FDATASYNC,
    SystemCall::LINKAT,
    SystemCall::RENAMEAT,
    SystemCall::RENAMEAT2,
    SystemCall::UNLINKAT,
];

const LENGTH: u64 = 3 << 20;

/// How long a call is held up, and when the future is dropped meanwhile.
const HELD: Duration = Duration::from_millis(40);
const DROPPED: Duration = Duration::from_millis(15);

fn scene() -> TempDir {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(directory.path().join("source"), seeded(1, 0, LENGTH)).unwrap();
    directory
}

fn files(directory: &Path) -> (PathBuf, PathBuf) {
    (directory.join("source"), directory.join("destination"))
}

#[tokio::test]
async fn a_file_is_copied_and_its_errors_are_those_of_a_copy() {
    let directory = scene();
    let (source, destination) = files(directory.path());
    let options = CopyOptions::new().verify(Digest::Xxh3);
    let outcome = copy_file_async(&source, &destination, &options).await.unwrap();
    assert!(matches!(outcome, Outcome::Copied(receipt) if receipt.bytes == LENGTH));
    assert_eq!(std::fs::read(&destination).unwrap(), seeded(1, 0, LENGTH));
    let missing = copy_file_async(directory.path().join("x"), &destination, &options).await;
    assert!(missing.unwrap_err().is_not_found());
    let in_place = options.in_place(true);
    let refused = copy_file_async(&source, &destination, &in_place).await.unwrap_err();
    assert_eq!(*refused.reason(), Reason::Options(Contradiction::AsyncInPlace));
}

/// A task that waits for a FIFO's writer is not in the way, and ends when its future is dropped.
#[test]
fn a_copy_that_waits_for_a_writer_can_be_dropped() {
    let directory = scene();
    let (_, destination) = files(directory.path());
    let fifo = directory.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let options = CopyOptions::new().read_streams(true);
    let copy = copy_file_async(&fifo, &destination, &options);
    let ended = runtime.block_on(async { tokio::time::timeout(DROPPED, copy).await });
    assert!(ended.is_err(), "there is no writer");
    drop(runtime);
    assert!(!destination.exists());
}

#[test]
fn a_runtime_that_has_shut_down_copies_nothing() {
    let directory = scene();
    let (source, destination) = files(directory.path());
    let runtime = Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let options = CopyOptions::new();
    let mut copy = Box::pin(copy_file_async(&source, &destination, &options));
    // The only thread is taken, so the copy waits for it.
    let (release, wait) = std::sync::mpsc::channel::<()>();
    runtime.spawn_blocking(move || wait.recv());
    let guard = runtime.enter();
    assert!(copy.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(copy);
    drop(guard);
    drop(release);
    drop(runtime);
    assert!(!destination.exists());
}

/// Names in a directory, and what the destination is.
fn listing(directory: &Path) -> (Vec<OsString>, Option<Vec<u8>>) {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<OsString> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    (names, std::fs::read(directory.join("destination")).ok())
}

/// Begins a copy, drops it, and looks at what is there then and when its thread has ended.
fn drop_a_copy(directory: &Path, options: &CopyOptions) {
    let (source, destination) = files(directory);
    let old = std::fs::read(&destination).ok();
    let runtime = Builder::new_current_thread().build().unwrap();
    {
        let guard = runtime.enter();
        let mut copy = pin!(copy_file_async(&source, &destination, options));
        let _ = copy.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        std::thread::sleep(DROPPED);
        drop(guard);
    }
    let then = listing(directory);
    // Waits for the thread.
    drop(runtime);
    let (names, found) = listing(directory);
    let appeared: Vec<_> = names.iter().filter(|name| !then.0.contains(name)).collect();
    assert!(appeared.is_empty(), "{appeared:?} appeared after the drop");
    assert!(found == then.1, "the destination changed after the drop");
    let is_whole = found.as_ref().is_some_and(|bytes| *bytes == seeded(1, 0, LENGTH));
    assert!(found == old || is_whole, "the destination is neither the old file nor the copy");
    assert!(
        !names.iter().any(|name| name.as_encoded_bytes().starts_with(b".uncopy-")),
        "{names:?}"
    );
}

/// A copy whose future is dropped while one call after the other is held up.
struct Drops {
    /// Name of the test, which is also the child.
    test: &'static str,
    replaces: bool,
    /// No unnamed files are to be had.
    named: bool,
    options: CopyOptions,
}

impl Drops {
    /// Each call in turn, so many rounds.
    fn run(&self) {
        if let Some(directory) = std::env::var_os(DIRECTORY) {
            return drop_a_copy(directory.as_ref(), &self.options);
        }
        let calls = self.round(None);
        assert!(calls > 10, "{calls} calls");
        let rounds = by_extent([calls.min(12), 250, 1000]);
        let step = by_extent([calls.div_ceil(12), 1, 1]);
        for round in 0..rounds {
            self.round(Some(1 + round * step % calls));
        }
    }

    /// One child; this call of it is held up. Returns the number of calls.
    fn round(&self, nth: Option<usize>) -> usize {
        let directory = scene();
        if self.replaces {
            std::fs::write(directory.path().join("destination"), "old").unwrap();
        }
        let test = format!("copy_async::{}", self.test);
        let child = Program::new(std::env::current_exe().unwrap())
            .args([test.as_str(), "--exact", "--nocapture"])
            .env(DIRECTORY, directory.path());
        let mut intercepted = Intercepted::new(&child);
        if self.named {
            let unnamed = CallPattern::of(&[SystemCall::OPENAT, SystemCall::OPENAT2])
                .when(testbed::WatchedCall::makes_unnamed_file);
            intercepted = intercepted.inject(unnamed.fails(Errno::EOPNOTSUPP));
        }
        if let Some(nth) = nth {
            let held = CallPattern::of(&CALLS).on(directory.path()).nth(nth).delayed(HELD);
            intercepted = intercepted.inject(held);
        }
        let intercept = if nth.is_some() { intercepted.run() } else { intercepted.record() };
        let run = &intercept.run;
        assert!(run.status.success(), "call {nth:?}: {}{}", run.stdout, run.stderr);
        assert!(run.stdout.contains("1 passed"), "{}", run.stdout);
        let on_files = intercept.log.iter().filter(|call| CALLS.contains(&call.call));
        on_files.filter(|call| call.touches(directory.path())).count()
    }
}

#[test]
fn dropped_at_every_call_of_a_new_file() {
    let options = CopyOptions::new();
    let test = "dropped_at_every_call_of_a_new_file";
    Drops { test, replaces: false, named: false, options }.run();
}

#[test]
fn dropped_at_every_call_of_a_replacement() {
    let options = CopyOptions::new();
    let test = "dropped_at_every_call_of_a_replacement";
    Drops { test, replaces: true, named: false, options }.run();
}

#[test]
fn dropped_at_every_call_with_a_temporary_name() {
    let options = CopyOptions::new();
    let test = "dropped_at_every_call_with_a_temporary_name";
    Drops { test, replaces: true, named: true, options }.run();
}

#[test]
fn dropped_at_every_call_of_a_verified_durable_copy() {
    let options = CopyOptions::new().durable(true).verify(Digest::Xxh3);
    let test = "dropped_at_every_call_of_a_verified_durable_copy";
    Drops { test, replaces: true, named: false, options }.run();
}
