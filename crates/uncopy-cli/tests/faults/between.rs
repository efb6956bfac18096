//! Both programs of a copy between machines.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use testbed::{
    CallPattern, Case, Compared, Content, Fault, Intercept, Intercepted, Program, SystemCall,
    WatchedCall, assert_same_tree, by_extent, seeded,
};
use uncopy::Errno;

use crate::faults::{Scene, ends_for_want_of_memory, trees};
use crate::remote::{Direction, Machines};

/// Program whose calls fail, by the first argument of its command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Near,
    Far,
}

impl Role {
    const BOTH: [Role; 2] = [Role::Near, Role::Far];

    fn first_argument(self) -> &'static str {
        match self {
            Role::Near => "cp",
            Role::Far => "serve",
        }
    }
}

/// Scene of a direction, in which one program's calls fail.
type Act = fn(Direction, Role);

/// More than the number of pieces that are under way at once.
const LARGE: u64 = (3 << 20) + 77;

/// Reasons that are about no file, and about neither machine.
const OWN: [&str; 6] =
    ["standard output", "signal", "thread", "memory", "configuration", "standard input"];

struct Between {
    machines: Machines,
    direction: Direction,
    role: Role,
    host: &'static str,
}

impl Between {
    /// Makes a tree with entries of several kinds, and a file of this length.
    fn new(direction: Direction, role: Role, large: u64) -> Between {
        let machines = Machines::new();
        let source = machines.source(direction).join("src");
        fs::create_dir_all(source.join("a/b")).unwrap();
        fs::create_dir(source.join("empty")).unwrap();
        fs::write(source.join("a/small"), "small").unwrap();
        fs::write(source.join("a/large"), seeded(1, 0, large)).unwrap();
        drop(
            Content::sparse(300_000, &[(0, 4096), (200_000, 10)])
                .write(&source.join(trees::FILES[2])),
        );
        fs::hard_link(source.join("a/small"), source.join("linked")).unwrap();
        symlink("a/small", source.join("link")).unwrap();
        Between { machines, direction, role, host: "far" }
    }

    /// Makes one whose remote shell says where it came to, as ssh does.
    fn with_an_address(direction: Direction, role: Role, large: u64) -> Between {
        let between = Between::new(direction, role, large);
        between.machines.log_in_with("export SSH_CONNECTION='127.0.0.1 1 127.0.0.1 22'");
        Between { host: "127.0.0.1", ..between }
    }

    fn source(&self) -> PathBuf {
        self.machines.source(self.direction).join("src")
    }

    fn destination(&self) -> PathBuf {
        self.machines.destination(self.direction).join("copy")
    }

    fn program(&self, flags: &[&str]) -> Program {
        let there = |name: &str| OsString::from(format!("{}:{name}", self.host));
        let operands = match self.direction {
            Direction::Push => ["src".into(), there("copy")],
            Direction::Pull => [there("src"), "copy".into()],
        };
        let program = self.machines.cp().env("RUST_BACKTRACE", "0");
        program.args(["-rT", "--json", "--jobs=1"]).args(flags).args(operands)
    }

    fn reset(&self, has_old: bool) {
        let to = self.machines.destination(self.direction);
        for name in to.strangers(&[]) {
            let path = to.join(name);
            let is_directory = path.symlink_metadata().unwrap().is_dir();
            let removed =
                if is_directory { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            removed.unwrap();
        }
        if has_old {
            trees::put_old(&self.destination());
        }
    }

    fn check(&self, intercept: &Intercept, fault: &Fault, has_old: bool) {
        let run = &intercept.run;
        trees::assert_whole_or_old(&self.source(), &self.destination(), has_old, run, fault);
        if !run.status.success() {
            if !ends_for_want_of_memory(intercept, fault) && !run.stderr.is_empty() {
                self.check_message(&run.stderr, fault);
            }
        } else if !run.stdout.contains("\"not_linked\"") {
            assert_same_tree(&self.source(), &self.destination(), Compared::default());
        }
        let from = self.machines.source(self.direction);
        assert_eq!(from.strangers(&["src"]), [""; 0], "{fault}: beside the source");
    }

    /// Checks that a message names the operation and its subject: a file of the copy, or the other machine.
    fn check_message(&self, text: &str, fault: &Fault) {
        let subjects = ["src", "copy", ".uncopy-", self.host];
        let is_named = |line: &str| subjects.iter().chain(&OWN).any(|name| line.contains(name));
        let is_message = |line: &str| line.contains("cannot ") && is_named(line);
        assert!(text.lines().any(is_message), "{fault}: no operation or subject: {text}");
        // A subject on the other machine is named with it.
        if self.role == Role::Far && self.direction == Direction::Pull {
            assert!(text.contains(self.host), "{fault}: no machine: {text}");
        }
    }

    fn check_strangers(&self, intercept: &Intercept, fault: &Fault) {
        let to = self.machines.destination(self.direction);
        trees::check_strangers(to, &["copy"], intercept, fault);
    }

    fn scene<'a>(
        &self,
        flags: &[&str],
        reset: &'a dyn Fn(),
        check: &'a dyn Fn(&Intercept, &Fault),
    ) -> Scene<'a> {
        let role = Some(self.role.first_argument());
        let scene = Scene::new(self.program(flags));
        Scene { reset, check, most: 2, is_spread: true, role, ..scene }
    }
}

fn to_a_new_place(direction: Direction, role: Role) {
    let between = Between::new(direction, role, LARGE);
    let reset = || between.reset(false);
    let check = |intercept: &Intercept, fault: &Fault| {
        between.check(intercept, fault, false);
        between.check_strangers(intercept, fault);
    };
    between.scene(&["-p"], &reset, &check).each();
}

/// The next run goes on with what a run with a fault left.
fn merged_with_a_journal(direction: Direction, role: Role) {
    let between = Between::new(direction, role, LARGE);
    let flags = ["-p", "--resume", "--durable", "--verify"];
    let again = between.program(&flags);
    let reset = || between.reset(true);
    let check = |intercept: &Intercept, fault: &Fault| {
        between.check(intercept, fault, true);
        let again = again.run();
        assert!(again.status.success(), "{fault}: {again:?} after {:?}", intercept.run);
        let compared = Compared { modes: true, ..Compared::default() };
        assert_same_tree(&between.source(), &between.destination(), compared);
        between.check_strangers(intercept, fault);
    };
    between.scene(&flags, &reset, &check).each();
}

/// Calls that make connections, and that bytes cross them by.
const OF_CONNECTIONS: [SystemCall; 13] = [
    SystemCall::SOCKET,
    SystemCall::CONNECT,
    SystemCall::BIND,
    SystemCall::LISTEN,
    SystemCall::ACCEPT4,
    SystemCall::SENDTO,
    SystemCall::RECVFROM,
    SystemCall::SETSOCKOPT,
    SystemCall::GETSOCKOPT,
    SystemCall::GETSOCKNAME,
    SystemCall::EPOLL_CREATE1,
    SystemCall::EPOLL_CTL,
    SystemCall::EVENTFD2,
];

/// Connections that the copy waits for: it is made, or there is none that stands.
fn over_connections(direction: Direction, role: Role) {
    let between = Between::with_an_address(direction, role, LARGE);
    let reset = || between.reset(false);
    let check = |intercept: &Intercept, fault: &Fault| {
        between.check(intercept, fault, false);
        between.check_strangers(intercept, fault);
        let run = &intercept.run;
        let is_about_connections = run.stderr.contains("no data connection stands: ");
        assert!(run.status.success() || is_about_connections, "{fault}: {run:?}");
    };
    let scene = between.scene(&["--data=tls", "--connections=2"], &reset, &check);
    Scene { only: &OF_CONNECTIONS, most: 4, ..scene }.each();
}

/// Connections that the copy does not wait for: it is made in any case.
fn beside_connections(direction: Direction, role: Role) {
    // They are made behind 8 MiB.
    let between = Between::with_an_address(direction, role, 12 << 20);
    let reset = || between.reset(false);
    let check = |intercept: &Intercept, fault: &Fault| {
        assert!(intercept.run.status.success(), "{fault}: {:?}", intercept.run);
        between.check(intercept, fault, false);
        between.check_strangers(intercept, fault);
    };
    let scene = between.scene(&["--connections=2"], &reset, &check);
    Scene { only: &OF_CONNECTIONS, ..scene }.each();
}

/// Streams, and connections, that take and give a few bytes at a time.
fn in_small_parts() {
    let large = by_extent([300_000, LARGE, LARGE]);
    for direction in Direction::BOTH {
        for role in Role::BOTH {
            for (flags, calls) in [
                (&["-p"][..], [SystemCall::READ, SystemCall::WRITE]),
                (&["-p", "--data=tls"], [SystemCall::RECVFROM, SystemCall::SENDTO]),
            ] {
                let between = Between::with_an_address(direction, role, large);
                let pattern = CallPattern::of(&calls).when(WatchedCall::is_on_a_stream);
                let intercept = Intercepted::new(&between.program(flags))
                    .in_role(role.first_argument())
                    .inject(pattern.moves_at_most(4099))
                    .run();
                let what = format!("{direction:?} {role:?} {:?}", intercept.run);
                assert!(intercept.run.status.success(), "{what}");
                // One of them moves the large file, and the other one asks for it.
                assert!(intercept.hits > 5, "{} calls: {what}", intercept.hits);
                assert_same_tree(&between.source(), &between.destination(), Compared::default());
            }
        }
    }
}

/// Another process that shares the streams has made them non-blocking.
fn with_non_blocking_streams() {
    for direction in Direction::BOTH {
        for role in Role::BOTH {
            let between = Between::new(direction, role, LARGE);
            let calls = CallPattern::of(&[SystemCall::READ, SystemCall::WRITE]);
            // All but the standard streams.
            let calls = calls.when(|call| call.is_on_a_stream() && call.arguments[0] > 2);
            let program = Intercepted::new(&between.program(&["-p"]));
            let program = program.in_role(role.first_argument());
            let intercept = program.inject(calls.every_second().fails(Errno::EAGAIN)).run();
            let what = format!("{direction:?} {role:?} {:?}", intercept.run);
            assert!(intercept.run.status.success() && intercept.hits > 5, "{what}");
            assert_same_tree(&between.source(), &between.destination(), Compared::default());
        }
    }
}

/// A filter forbids random numbers of the kernel: both programs read them from a file, also once they are confined.
fn without_getrandom() {
    for direction in Direction::BOTH {
        for role in Role::BOTH {
            let between = Between::new(direction, role, LARGE);
            // The first one succeeds, so that the file is not open before.
            let calls = CallPattern::of(&[SystemCall::GETRANDOM]).from(2);
            let forbidden = calls.fails(Errno::ENOSYS);
            let program = Intercepted::new(&between.program(&["-p"]));
            let intercept = program.in_role(role.first_argument()).inject(forbidden).run();
            let what = format!("{direction:?} {role:?} {:?}", intercept.run);
            assert!(intercept.run.status.success() && intercept.hits > 0, "{what}");
            assert_same_tree(&between.source(), &between.destination(), Compared::default());
        }
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases =
        testbed::cases![[] in_small_parts, [] with_non_blocking_streams, [] without_getrandom];
    for direction in Direction::BOTH {
        for role in Role::BOTH {
            let name = |of: &str| format!("faults::between::{of}::{direction:?}::{role:?}");
            let scenes: [(&str, Act); 4] = [
                ("to_a_new_place", to_a_new_place),
                ("merged_with_a_journal", merged_with_a_journal),
                ("over_connections", over_connections),
                ("beside_connections", beside_connections),
            ];
            for (of, scene) in scenes {
                let name = name(of).to_lowercase();
                cases.push(Case::new(name, &[], move || scene(direction, role)));
            }
        }
    }
    cases
}
