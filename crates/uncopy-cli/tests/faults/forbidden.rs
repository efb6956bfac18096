//! Profiles of containers forbid whole kinds of calls, by one error or the other: the program goes on
//! without them, and says so.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};

use testbed::{
    Case, Compared, Content, Forbidden, Intercepted, Need, Place, Program, Receipt, Scratch,
    SystemCall, assert_same, assert_same_tree, by_extent, drop_from_cache,
};
use uncopy::Errno;

use crate::faults::uncopy;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] files_and_trees_are_copied,
        [] refusals_are_reported,
        [Need::BareDevice, Need::LockedMemory(7)] cold_files_are_read_without_a_ring,
        [Need::BareDevice, Need::Tool("prlimit")] cold_files_are_read_without_locked_memory,
        [Need::LockedMemory(1)] nobody_asks_for_userfaultfd,
        [Need::LockedMemory(1)] sends_fall_back,
        [] reports_are_made,
        [Need::Root] by_a_user_without_privileges,
    ]
}

const BOTH: [Errno; 2] = [Errno::EPERM, Errno::ENOSYS];
const IO_URING: &[SystemCall] =
    &[SystemCall::IO_URING_SETUP, SystemCall::IO_URING_ENTER, SystemCall::IO_URING_REGISTER];
/// `include/uapi/asm-generic/socket.h`.
const SO_ZEROCOPY: Forbidden = Forbidden::SocketOption(60);

fn profiles() -> Vec<Vec<Forbidden>> {
    let sets: &[&[SystemCall]] = &[
        IO_URING,
        &[SystemCall::COPY_FILE_RANGE],
        &[SystemCall::SPLICE, SystemCall::SENDFILE],
        &[SystemCall::COPY_FILE_RANGE, SystemCall::SPLICE, SystemCall::SENDFILE],
        &[SystemCall::STATX],
        &[SystemCall::OPENAT2],
        &[SystemCall::MEMFD_CREATE],
        &[SystemCall::USERFAULTFD],
        &[SystemCall::RENAMEAT2],
        &[SystemCall::FLOCK, SystemCall::FADVISE64, SystemCall::SYNC_FILE_RANGE],
        &[SystemCall::FALLOCATE, SystemCall::FLISTXATTR, SystemCall::FGETXATTR],
        &[SystemCall::GETRANDOM, SystemCall::PRLIMIT64, SystemCall::SCHED_GETAFFINITY],
        &[SystemCall::CLONE3],
        &[SystemCall::PIPE2, SystemCall::EVENTFD2, SystemCall::EPOLL_CREATE1],
    ];
    let calls = |set: &&[SystemCall]| set.iter().map(|call| Forbidden::Call(*call)).collect();
    sets.iter().map(calls).chain([vec![SO_ZEROCOPY]]).collect()
}

/// Each profile with both errors; in the short extent with one of them, in turn.
fn each(check: impl Fn(&[Forbidden], Errno)) {
    for (number, profile) in profiles().into_iter().enumerate() {
        let turn = number % BOTH.len();
        let errnos = by_extent([&BOTH[turn..=turn], &BOTH, &BOTH]);
        errnos.iter().for_each(|errno| check(&profile, *errno));
    }
}

struct Scene {
    from: Scratch,
    to: Scratch,
}

impl Scene {
    fn at(place: Place) -> Scene {
        let scene = Scene { from: place.scratch(), to: place.scratch() };
        drop(Content::sparse(900_001, &[(0, 70_000), (400_000, 500_001)]).write(&scene.file()));
        fs::create_dir_all(scene.tree().join("a/b")).unwrap();
        fs::write(scene.tree().join("a/small"), "small").unwrap();
        fs::write(scene.tree().join("a/b/large"), vec![8; 200_000]).unwrap();
        fs::hard_link(scene.tree().join("a/small"), scene.tree().join("again")).unwrap();
        std::os::unix::fs::symlink("a", scene.tree().join("link")).unwrap();
        scene
    }

    fn file(&self) -> PathBuf {
        self.from.join("file")
    }

    fn tree(&self) -> PathBuf {
        self.from.join("tree")
    }

    fn copy(&self, program: Program, context: &str) -> Receipt {
        let to = self.to.join("file");
        let run = program.arg(self.file()).arg(&to).run();
        assert!(run.status.success(), "{context}: {run:?}");
        assert_same(&self.file(), &to);
        assert_eq!(self.to.strangers(&["file"]), [""; 0], "{context}");
        fs::remove_file(to).unwrap();
        run.receipt()
    }

    fn copy_tree(&self, program: Program, context: &str) {
        let to = self.to.join("tree");
        let run = program.arg("-T").arg(self.tree()).arg(&to).run();
        assert!(run.status.success(), "{context}: {run:?}");
        let compared = Compared { modes: true, ..Compared::default() };
        assert_same_tree(&self.tree(), &to, compared);
        assert_eq!(self.to.strangers(&["tree"]), [""; 0], "{context}");
        fs::remove_dir_all(to).unwrap();
    }
}

fn files_and_trees_are_copied() {
    let scene = Scene::at(Place::Disk);
    each(|profile, errno| {
        let context = format!("{errno} from {profile:?}");
        for flags in [&["cp", "--json"][..], &["cp", "--json", "--durable", "--prefer=cpu", "-p"]] {
            scene.copy(uncopy().args(flags).forbidding(profile, errno), &context);
        }
        let tree = uncopy().args(["cp", "-r", "--json", "-p", "--resume"]);
        scene.copy_tree(tree.forbidding(profile, errno), &context);
    });
}

/// The receipt names what was asked for and answered.
fn refusals_are_reported() {
    let scene = Scene::at(Place::Disk);
    for errno in BOTH {
        let without = |calls: &[SystemCall], flag: &str| {
            let calls: Vec<_> = calls.iter().map(|call| Forbidden::Call(*call)).collect();
            let program = uncopy().args(["cp", "--json", flag]).forbidding(&calls, errno);
            scene.copy(program, flag)
        };
        let calls = [SystemCall::COPY_FILE_RANGE, SystemCall::SPLICE, SystemCall::SENDFILE];
        let receipt = without(&calls, "--cache=auto");
        for mechanism in ["splice", "sendfile"] {
            let refusal = receipt.refusal(mechanism).expect("it was tried");
            assert_eq!(refusal.errno.as_deref(), errno.name(), "{}", receipt.value());
            assert_eq!(receipt.by(mechanism), 0);
        }
        let copied = receipt.by("read_write") + receipt.by("direct") + receipt.at("hole");
        assert_eq!(copied, receipt.bytes(), "{}", receipt.value());
    }
}

/// A source that is not in the page cache.
struct ColdSource {
    from: Scratch,
    to: Scratch,
    file: fs::File,
}

impl ColdSource {
    const LENGTH: u64 = (5 << 20) + 77;

    fn new() -> ColdSource {
        let (from, to) = (Place::Disk.scratch(), Place::Disk.scratch());
        let file = Content::dense(ColdSource::LENGTH).write(&from.join("source"));
        ColdSource { from, to, file }
    }

    fn copy(&self) -> PathBuf {
        self.to.join("copy")
    }

    /// Drops the source from the cache, and makes a command line that copies it.
    fn program(&self, flags: &[&str]) -> Program {
        let _ = fs::remove_file(self.copy());
        drop_from_cache(&self.file);
        let program = uncopy().args(["cp", "--json"]).args(flags);
        program.arg(self.from.join("source")).arg(self.copy())
    }

    #[track_caller]
    fn check(&self, receipt: &Receipt, mechanism: &str, context: &str) {
        assert_same(&self.from.join("source"), &self.copy());
        let is_most = receipt.by(mechanism) + 4096 > ColdSource::LENGTH;
        assert!(is_most, "{context}: {}", receipt.value());
    }
}

/// Registered buffers count against the limit on locked memory: where it is used up, a copy goes on without a
/// ring and says so, and a ring that was named is refused before anything is written.
fn cold_files_are_read_without_locked_memory() {
    let cold = ColdSource::new();
    let limited = |flags: &[&str]| {
        let program = cold.program(flags).through(["prlimit", "--memlock=65536:65536"]);
        match rustix::process::geteuid().is_root() {
            // Its capability lifts the limit.
            true => program.through(["setpriv", "--bounding-set=-ipc_lock"]),
            false => program,
        }
    };
    for flags in [&["--cache=skip"][..], &["--cache=skip", "--method=direct"]] {
        let receipt = limited(flags).run().receipt();
        cold.check(&receipt, "direct", "no lockable memory");
        let refusal = receipt.refusal("direct_ring").expect("it was tried");
        assert_eq!(refusal.errno.as_deref(), Some("ENOMEM"), "{}", receipt.value());
        assert!(refusal.reason.contains("io_uring"), "{}", receipt.value());
    }
    let run = limited(&["--method=direct-ring"]).run();
    assert!(run.failed(5).contains("ENOMEM"), "{}", run.stderr);
    assert_eq!(cold.to.strangers(&[]), [""; 0]);
}

/// Past the page cache on both sides: through a ring, or by its mapped pages where there is none.
fn cold_files_are_read_without_a_ring() {
    let source = ColdSource::new();
    let copy = source.copy();
    let cold = |flags: &[&str]| source.program(flags);
    let went = |receipt: &Receipt, mechanism: &str, context: &str| {
        source.check(receipt, mechanism, context);
    };
    let ring: &[&str] = &["--method=direct-ring"];
    let skip: &[&str] = &["--cache=skip"];
    let direct: &[&str] = &["--cache=skip", "--method=direct"];
    for way in [ring, skip, direct] {
        let (run, calls) = Intercepted::new(&cold(way)).count();
        assert!(calls.contains_key(&SystemCall::IO_URING_ENTER), "{way:?}: {calls:?}");
        went(&run.receipt(), "direct_ring", "with a ring");
        assert!(run.receipt().refusal("direct_ring").is_none(), "{way:?}: {}", run.stdout);
    }
    for errno in BOTH {
        for calls in [IO_URING, &IO_URING[2..]] {
            let context = format!("{errno} from {calls:?}");
            let calls: Vec<_> = calls.iter().map(|call| Forbidden::Call(*call)).collect();
            for way in [skip, direct] {
                let receipt = cold(way).forbidding(&calls, errno).run().receipt();
                went(&receipt, "direct", &context);
                let refusal = receipt.refusal("direct_ring").expect("it says what it did without");
                assert_eq!(refusal.errno.as_deref(), errno.name(), "{}", receipt.value());
                assert!(refusal.reason.contains("io_uring"), "{}", receipt.value());
            }
            // The ring alone was named: it or nothing.
            let run = cold(ring).forbidding(&calls, errno).run();
            assert!(run.failed(5).contains("io_uring"), "{context}: {}", run.stdout);
            assert!(!copy.exists(), "{context}");
        }
        // A ring that was set up and takes nothing.
        let enter = [Forbidden::Call(SystemCall::IO_URING_ENTER)];
        let receipt = cold(skip).forbidding(&enter, errno).run().receipt();
        went(&receipt, "direct", "no io_uring_enter");
        let refusal = receipt.refusal("direct_ring").expect("it was tried");
        assert_eq!(refusal.errno.as_deref(), errno.name(), "{}", receipt.value());
    }
}

/// Profiles that forbid it take nothing away.
fn nobody_asks_for_userfaultfd() {
    let scene = Scene::at(Place::Disk);
    let receiver = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let port = receiver.local_addr().unwrap().port().to_string();
    let to = scene.to.path();
    let send = ["bench", "send", "-4", "udp", "-D", "127.0.0.1", "-t", "0.01", "-p", &port];
    let copy = |words: &[&str], source: &Path| uncopy().args(words).arg(source).arg(to.join("to"));
    let programs = [
        copy(&["cp", "--durable", "--verify"], &scene.file()),
        copy(&["cp", "--prefer=cpu", "--cache=skip"], &scene.file()),
        copy(&["cp", "-r", "--resume"], &scene.tree()),
        uncopy().args(send).args(["--mode", "ring"]),
        uncopy().args(send).args(["--mode", "msg-zerocopy"]),
        uncopy().args(["capabilities"]).arg(to),
        uncopy().args(["doctor", "--json"]),
    ];
    for program in programs {
        let (run, calls) = Intercepted::new(&program).count();
        assert!(matches!(run.status.code(), Some(0 | 6..=8)), "{run:?}");
        assert!(calls.len() >= 5, "{calls:?}");
        assert!(!calls.contains_key(&SystemCall::USERFAULTFD), "{program:?}");
        let _ = fs::remove_file(to.join("to"));
    }
}

fn sends_fall_back() {
    let receiver = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let port = receiver.local_addr().unwrap().port().to_string();
    let words = ["bench", "send", "-4", "udp", "-D", "127.0.0.1", "-t", "0.01", "-s", "20000"];
    each(|profile, errno| {
        for mode in ["msg-zerocopy", "ring", "auto"] {
            let program = uncopy().args(words).args(["-p", &port, "--json", "--mode", mode]);
            let program = program.forbidding(profile, errno);
            let run = program.run();
            let context = format!("{mode}: {errno} from {profile:?}");
            assert!(run.status.success(), "{context}: {run:?}");
            let said: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
            assert_ne!(said["sends"], 0, "{context}: {said}");
            assert_eq!(said["zero_copy"], false, "{context}: {said}");
            assert_eq!(said["failed_sends"], 0, "{context}: {said}");
            let has_no_ring = profile.contains(&Forbidden::Call(SystemCall::IO_URING_SETUP));
            let expected = (has_no_ring && mode == "ring").then(|| errno.message());
            assert_eq!(said["without_io_uring"].as_str(), expected.as_deref(), "{context}: {said}");
        }
    });
}

/// Nothing is asked that could not be answered "unknown".
fn reports_are_made() {
    let place = Place::Disk.scratch();
    fs::write(place.join("file"), vec![1; 5000]).unwrap();
    let path = |name: &str| place.join(name).to_string_lossy().into_owned();
    each(|profile, errno| {
        let (file, copy, directory) = (path("file"), path("copy"), path("."));
        for words in [
            &["capabilities", &directory][..],
            &["doctor"],
            &["doctor", "udp://127.0.0.1:9"],
            &["doctor", &file, &copy],
        ] {
            let run = uncopy().args(words).forbidding(profile, errno).run();
            let code = run.status.code();
            let context = format!("{words:?}, {errno} from {profile:?}: {run:?}");
            assert!(matches!(code, Some(0 | 6..=8)), "{context}");
            assert!(!run.stdout.is_empty(), "{context}");
        }
        assert_eq!(place.strangers(&["file"]), [""; 0]);
    });
}

const NOBODY: u32 = 65534;

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
}

fn by_a_user_without_privileges() {
    let scene = Scene::at(Place::Tmpfs);
    open_to_all(scene.to.path());
    let copy = Place::Tmpfs.path().join("uncopy-forbidden");
    testbed::run_tool("cp", [env!("CARGO_BIN_EXE_uncopy").as_ref(), copy.as_os_str()]);
    each(|profile, errno| {
        let context = format!("{errno} from {profile:?}");
        let as_nobody = |words: &[&str]| {
            let program = Program::new(&copy).args(words).forbidding(profile, errno);
            program.as_user(NOBODY)
        };
        scene.copy(as_nobody(&["cp", "--json"]), &context);
        let run = as_nobody(&["cp", "-r"]).arg(scene.tree()).arg(scene.to.join("tree")).run();
        assert!(run.status.success(), "{context}: {run:?}");
        assert_same_tree(&scene.tree(), &scene.to.join("tree"), Compared::default());
        fs::remove_dir_all(scene.to.join("tree")).unwrap();
        assert_eq!(as_nobody(&["capabilities"]).run().status.code(), Some(0), "{context}");
    });
}
