//! Compiles programs in C and C++ with the system's compilers (`CC`, `CXX`) and runs them: normally,
//! with copies by the kernel, with channels over sockets, and under AddressSanitizer and UndefinedBehaviorSanitizer.
//! In the full extent they have the static library, otherwise all but two have the shared one, which is linked in
//! a twentieth of the time. With
//! `UNCOPY_TEST_VALGRIND` set, those without sanitizers run under Valgrind as well. For another
//! processor `UNCOPY_TEST_RUNNER` is the command that runs them (`qemu-aarch64 -L …`).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use testbed::witness::Strace;
use testbed::{Extent, Forbidden, GATHERED, Gathered, Program, SentParts, SystemCall};
use uncopy::doctor::{Options, Report, Target, examine};
use uncopy_core::Errno;

const RUNNER: &str = "UNCOPY_TEST_RUNNER";
/// Tells a program that something between it and the kernel has limits and memory of its own.
const EMULATED_SYSTEM: &str = "UNCOPY_ZX_TEST_EMULATED";
const EMULATED: &str = "needs programs that run without UNCOPY_TEST_RUNNER";
const UNSANITIZED: &str = "needs a compiler whose sanitizers work here";
const SANITIZERS: &str = "-fsanitize=address,undefined";
/// Makes Valgrind update the program counter at every access; the handlers recognise faults by it.
const PRECISE: &str = "--vex-iropt-register-updates=allregs-at-mem-access";
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-g"];

/// Directory for built programs, and the library.
struct Bench {
    directory: tempfile::TempDir,
    /// The static library; the shared one lies beside it.
    library: PathBuf,
    /// Directory of a copy of the shared library, under the name by which programs find it.
    shared: PathBuf,
    /// Results of the compiler, by program.
    built: Mutex<BTreeMap<PathBuf, Arc<Compiled>>>,
}

/// Result of the compiler, once it has run.
type Compiled = OnceLock<Result<(), String>>;

/// Name by which programs find the shared library.
const SONAME: &str = "libuncopy_zx.so.0";

/// Form of the library in a program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Linkage {
    Static,
    Shared,
}

impl Linkage {
    /// Returns the form for a program: static, in the short extent only for those that test channels and the
    /// wrappers of C++.
    fn of(source: &Path) -> Linkage {
        let is_chosen = source.ends_with("channel.c") || source.ends_with("wrappers.cpp");
        if Extent::from_env().is_full() || is_chosen { Linkage::Static } else { Linkage::Shared }
    }
}

/// One way to build a program.
#[derive(Clone, Copy)]
struct Build {
    name: &'static str,
    flags: &'static [&'static str],
}

const C_BUILDS: [Build; 3] = [
    Build { name: "c11", flags: &["-std=gnu11", "-O1"] },
    Build { name: "fuchsia", flags: &["-std=gnu11", "-O2", "-D__Fuchsia__"] },
    Build {
        name: "sanitized",
        flags: &["-std=gnu11", SANITIZERS, "-fno-sanitize-recover=undefined", "-O1"],
    },
];

const CPP_BUILDS: [Build; 5] = [
    Build { name: "c++17", flags: &["-std=c++17"] },
    Build { name: "c++17-fuchsia", flags: &["-std=c++17", "-D__Fuchsia__"] },
    Build { name: "c++20", flags: &["-std=c++20"] },
    Build { name: "c++20-fuchsia", flags: &["-std=c++20", "-D__Fuchsia__"] },
    Build {
        name: "sanitized",
        flags: &["-std=c++17", SANITIZERS, "-fno-sanitize-recover=undefined"],
    },
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert_with(testbed::threads);
    let bench = match Bench::new() {
        Ok(bench) => Arc::new(bench),
        Err(why) => {
            eprintln!("cannot test C programs: {why}");
            return ExitCode::FAILURE;
        }
    };
    let can_sanitize = bench.can_sanitize();
    let of_bench = |name: &str, run: fn(&Bench) -> Result<(), Failed>| {
        let bench = bench.clone();
        Trial::test(name, move || run(&bench))
    };
    let mut trials = vec![
        of_bench("shared_library", Bench::run_with_shared_library),
        of_bench("headers_stand_alone", Bench::compile_headers),
        of_bench("channel_examined_by_the_doctor", Bench::examine_channel),
        of_bench("headers_declare_what_is_exported", Bench::compare_symbols),
    ];
    // An emulator needs more system calls, and other users may not be able to execute it.
    let is_emulated = std::env::var_os(RUNNER).is_some();
    let is_root = rustix::process::geteuid().is_root();
    let forbidden = of_bench("forbidden_calls", Bench::run_without_forbidden_calls);
    trials.push(unless(is_emulated, EMULATED, forbidden));
    let unprivileged = of_bench("by_a_user_without_privileges", Bench::run_as_nobody);
    let unprivileged = unless(!is_root, "needs user id 0, to become another user", unprivileged);
    trials.push(unless(is_emulated, EMULATED, unprivileged));
    let can_trace = Command::new("strace").arg("-V").output().is_ok();
    let traced = of_bench("parts_of_system_calls", Bench::compare_parts);
    let traced = unless(!can_trace, "needs strace, which is not installed", traced);
    trials.push(unless(is_emulated, EMULATED, traced));
    let takes_all = Extent::from_env().is_full() || arguments.filter.is_some() || arguments.list;
    let mut left_out = 0;
    for (number, source) in sources().into_iter().enumerate() {
        let is_c = source.extension() == Some(OsStr::new("c"));
        let builds: &'static [Build] = if is_c { &C_BUILDS } else { &CPP_BUILDS };
        for (nth, build) in builds.iter().enumerate() {
            let is_sanitized = build.flags.contains(&SANITIZERS);
            if is_about_sanitizers(&source) && !is_sanitized {
                continue;
            }
            // In the short extent the first build, and one of the others in turn.
            let is_in_turn = nth == 0 || nth == 1 + number % (builds.len() - 1);
            if !takes_all && !is_in_turn && !is_about_sanitizers(&source) {
                left_out += 1;
                continue;
            }
            let stem = source.file_stem().and_then(OsStr::to_str).unwrap_or("?");
            let name = format!("{stem}/{}", build.name);
            let (bench, source) = (bench.clone(), source.clone());
            let trial = Trial::test(name, move || bench.build_and_run(&source, *build));
            trials.push(unless(is_sanitized && !can_sanitize, UNSANITIZED, trial));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if left_out > 0 {
        println!(
            "{left_out} builds were left out, and others cut short: UNCOPY_TEST_FULL=1 runs them whole\n"
        );
    }
    // Not by `exit`, after which the programs, most of a gigabyte, would stay in the directory for temporary files.
    conclusion.exit_code()
}

/// Returns the test, or one that shows as ignored with `reason` if `is_out`.
fn unless(is_out: bool, reason: &str, trial: Trial) -> Trial {
    if is_out { testbed::ignored(trial.name(), reason) } else { trial }
}

fn directory_of_programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c")
}

/// Runs a program under Valgrind, with suppressions for the bad pointers that tests pass.
fn valgrind(program: &Path) -> Command {
    let mut command = Command::new("valgrind");
    let known = directory_of_programs().join("valgrind.supp");
    let lent = program.with_extension("supp");
    std::fs::write(&lent, bad_regions()).expect("the directory of the program can be written to");
    // In a forked child, whatever the other threads of its parent were creating is lost. And Valgrind runs one
    // thread at a time: the thread that forks needs its turn.
    let how: &[_] = match program.ends_with("fork-c11") {
        true => &["--leak-check=no", "--fair-sched=try"],
        false => &["--leak-check=full"],
    };
    command
        .args(["--quiet", "--error-exitcode=99", PRECISE])
        .args(how)
        // Tables are referred to by interior pointers.
        .arg("--errors-for-leak-kinds=definite")
        .arg(format!("--suppressions={}", known.display()))
        .arg(format!("--suppressions={}", lent.display()))
        .arg(program)
        .env("UNCOPY_ZX_TEST_SHORT", "1")
        .env(EMULATED_SYSTEM, "1");
    command
}

/// Returns suppressions for bad regions that the kernel finds. They know no wildcard for a number.
fn bad_regions() -> String {
    let message = |part: usize| format!("sendmsg(msg.msg_iov[{part}])");
    let of_batch = |message: usize| format!("sendmsg(mmsg[{message}].msg_hdr.msg_iov[1])");
    let calls = (0..=8).map(message).chain((0..=2).map(of_batch));
    calls
        .map(|call| format!("{{\n   {call}\n   Memcheck:Param\n   {call}\n   fun:syscall\n}}\n"))
        .collect()
}

/// Returns the programs, sorted.
fn sources() -> Vec<PathBuf> {
    let mut sources = files_below(&directory_of_programs());
    sources.retain(|path| path.extension().is_some_and(|kind| kind == "c" || kind == "cpp"));
    sources
}

/// Whether the program only makes sense under sanitizers.
fn is_about_sanitizers(source: &Path) -> bool {
    source.ends_with("poison.c")
}

fn directory_of_headers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// Returns all files below a directory, sorted.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a directory of this crate");
    let mut files = Vec::new();
    for path in entries.map(|entry| entry.expect("a readable directory").path()) {
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

/// Returns the compiler of C, or of C++.
fn compiler(is_c: bool) -> Command {
    let (variable, usual) = if is_c { ("CC", "cc") } else { ("CXX", "c++") };
    Command::new(std::env::var_os(variable).unwrap_or_else(|| usual.into()))
}

/// Returns the command that runs a program.
fn start(program: &Path) -> Command {
    let runner = std::env::var(RUNNER).unwrap_or_default();
    let mut words: Vec<OsString> = runner.split_whitespace().map(OsString::from).collect();
    words.push(program.into());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    if words.len() > 1 {
        command.env(EMULATED_SYSTEM, "1");
    }
    command
}

/// Returns the functions that a header declares: names with one of our prefixes before a parenthesis,
/// in lines that begin a declaration. Inline functions do not count.
fn declared(header: &str) -> BTreeSet<String> {
    let mut rest = header;
    let mut code = String::new();
    while let Some((before, comment)) = rest.split_once("/*") {
        code += before;
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    code += rest;
    let starts = code.lines().filter(|line| !line.starts_with(['#', ' ']) && line.contains('('));
    let names = starts
        .filter(|line| !line.contains("static inline"))
        .filter_map(|line| line.split('(').next()?.split([' ', '*']).next_back());
    names.filter(|name| is_ours(name)).map(str::to_owned).collect()
}

fn is_ours(name: &str) -> bool {
    name.starts_with("zx_") || name.starts_with("uncopy_zx_")
}

impl Bench {
    fn new() -> Result<Bench, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        // Cargo puts all artefacts of the library into the directory of the test program.
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let library = own.with_file_name("libuncopy_zx.a");
        if !library.is_file() {
            return Err(format!("{} is missing; run this by `cargo test`", library.display()));
        }
        // Other users, who run some programs, may not be able to enter the directory of the test program.
        let shared = directory.path().join("library");
        std::fs::create_dir(&shared)
            .and_then(|()| std::fs::copy(library.with_extension("so"), shared.join(SONAME)))
            .map_err(|error| format!("cannot copy the shared library: {error}"))?;
        Ok(Bench { directory, library, shared, built: Mutex::default() })
    }

    /// Whether the compiler has sanitizers that work here.
    fn can_sanitize(&self) -> bool {
        let source = self.directory.path().join("empty.c");
        let program = self.directory.path().join("empty");
        std::fs::write(&source, "int main(void) { return 0; }\n").is_ok()
            && compiler(true)
                .args([SANITIZERS, "-o"])
                .args([&program, &source])
                .output()
                .is_ok_and(|output| output.status.success())
            && start(&program).output().is_ok_and(|output| output.status.success())
    }

    fn build_and_run(&self, source: &Path, build: Build) -> Result<(), Failed> {
        let program = self.build(source, build)?;
        let in_this_extent = || {
            let mut command = start(&program);
            if !Extent::from_env().is_full() {
                command.env("UNCOPY_ZX_TEST_SHORT", "1");
            }
            command
        };
        succeed(in_this_extent(), "the program")?;
        let mut with_kernel = in_this_extent();
        with_kernel.env("UNCOPY_ZX_TEST_KERNEL", "1");
        succeed(with_kernel, "the program with the kernel copying")?;
        let mut over_socket = in_this_extent();
        over_socket.env("UNCOPY_ZX_TEST_SOCKET", "1");
        succeed(over_socket, "the program with channels over sockets")?;
        let is_requested = std::env::var_os("UNCOPY_TEST_VALGRIND").is_some();
        // Valgrind does not support the crashes of that test.
        let can_help = !build.flags.contains(&SANITIZERS) && !program.ends_with("crash-c11");
        if !is_requested || !can_help {
            return Ok(());
        }
        succeed(valgrind(&program), "Valgrind")?;
        let mut over_socket = valgrind(&program);
        over_socket.env("UNCOPY_ZX_TEST_SOCKET", "1");
        Ok(succeed(over_socket, "Valgrind with channels over sockets")?)
    }

    /// Container profiles forbid these calls, with one error or another; channels work without them.
    fn run_without_forbidden_calls(&self) -> Result<(), Failed> {
        let program = self.build(&directory_of_programs().join("channel.c"), C_BUILDS[0])?;
        let calls = [
            SystemCall::USERFAULTFD,
            SystemCall::IO_URING_SETUP,
            SystemCall::IO_URING_ENTER,
            SystemCall::IO_URING_REGISTER,
            SystemCall::COPY_FILE_RANGE,
        ]
        .map(Forbidden::Call);
        for errno in [Errno::EPERM, Errno::ENOSYS] {
            let run = Program::new(&program).forbidding(&calls, errno).run();
            if !run.status.success() {
                return Err(format!("{errno}: {run:?}").into());
            }
        }
        Ok(())
    }

    /// Checks that regions are passed to the kernel where they lie: a message that was put together
    /// has other parts.
    fn compare_parts(&self) -> Result<(), Failed> {
        let program = self.build(&directory_of_programs().join("gather.c"), C_BUILDS[0])?;
        let program = Program::new(&program).env("UNCOPY_ZX_TEST_TRACED", "1");
        let (run, trace) = Strace::new(&program).run();
        if !run.status.success() {
            return Err(format!("{run:?}").into());
        }
        let found = SentParts::of(&trace);
        let calls = |row: Gathered| {
            let calls = [(false, false), (false, true), (true, false), (true, true)];
            calls.map(|(is_call, has_handle)| row.parts(is_call, has_handle))
        };
        let expected = GATHERED.into_iter().flat_map(calls).collect::<Vec<_>>();
        for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
            if found != expected {
                let (row, call) = (&GATHERED[number / 4], CALLS[number % 4]);
                return Err(format!("{call}, {row:?}: {found:?}, not {expected:?}").into());
            }
        }
        if found.len() == expected.len() {
            Ok(())
        } else {
            Err(format!("{} system calls, not {}", found.len(), expected.len()).into())
        }
    }

    /// Runs all C programs as another user, in a directory that everyone can read.
    fn run_as_nobody(&self) -> Result<(), Failed> {
        let directory = self.directory.path();
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755))?;
        let is_c = |path: &PathBuf| {
            path.extension() == Some(OsStr::new("c")) && !is_about_sanitizers(path)
        };
        for source in sources().into_iter().filter(is_c) {
            let program = self.build(&source, C_BUILDS[0])?;
            let run = Program::new(&program)
                .env("UNCOPY_ZX_TEST_SHORT", "1")
                .current_dir(Path::new("/"))
                .as_user(65534)
                .run();
            if !run.status.success() {
                return Err(format!("{}: {run:?}", source.display()).into());
            }
        }
        Ok(())
    }

    /// The channel of a C program, examined while it runs: both of its ends, and what is queued.
    fn examine_channel(&self) -> Result<(), Failed> {
        let program = self.build(&directory_of_programs().join("examined.c"), C_BUILDS[0])?;
        let mut command = start(&program);
        command.arg("wait").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let descriptor = line.trim().parse()?;
        let target = Target::Channel { pid: child.id(), descriptor };
        // The doctor takes a copy of the descriptor. A test beside this one that starts a program right then has it too
        // until the program runs.
        let is_held_elsewhere = |report: &Report| {
            let near = report.channel.as_ref().map(|facts| &facts.near);
            near.is_some_and(|near| {
                near.holders.iter().any(|holder| holder.process.pid != child.id())
            })
        };
        let patience = Instant::now() + Duration::from_secs(60);
        let report = loop {
            let report = examine(&target, &Options::default());
            if !report.as_ref().is_ok_and(is_held_elsewhere) || Instant::now() > patience {
                break report;
            }
        };
        // The program ends at the end of its input, and checks its messages.
        drop(child.stdin.take());
        let status = child.wait()?;
        let report = report?;
        let facts = report.channel.ok_or("no facts")?;
        let unread: u64 = ["first", "second"].map(|bytes| bytes.len() as u64 + 8).iter().sum();
        let found: Vec<&str> = report.findings.iter().map(|finding| finding.condition.id).collect();
        if status.success()
            && facts.near.unread_bytes == Some(unread)
            && facts.open_far().is_some_and(|far| far.holders[0].process.pid == child.id())
            && found.starts_with(&["channel-one-process", "channel-socket"])
        {
            Ok(())
        } else {
            Err(format!("{status}, {found:?}, {facts:?}").into())
        }
    }

    /// Checks that a program finds the library by its SONAME.
    fn run_with_shared_library(&self) -> Result<(), Failed> {
        let directory = self.directory.path().join("shared");
        std::fs::create_dir_all(&directory)?;
        let library = directory.join("libuncopy_zx.so");
        std::fs::copy(self.library.with_extension("so"), &library)?;
        let source = directory_of_programs().join("raii.cpp");
        let program = directory.join("raii");
        self.compile(&source, &[], &library, &program)?;
        let run = || {
            let mut command = start(&program);
            command.env("LD_LIBRARY_PATH", &directory);
            command
        };
        if succeed(run(), "the program").is_ok() {
            return Err("it was found by another name than its SONAME".into());
        }
        std::fs::rename(&library, directory.join(SONAME))?;
        Ok(succeed(run(), "the program")?)
    }

    /// Checks that each header compiles alone, in strict C99, C11, C++17 and C++20; in the short extent,
    /// with one of these and on one system, in turn.
    fn compile_headers(&self) -> Result<(), Failed> {
        let standards = ["c99", "c11", "c++17", "c++20"];
        let systems = ["-U__Fuchsia__", "-D__Fuchsia__"];
        let all = standards.map(|standard| systems.map(|system| (standard, system)));
        let all = all.as_flattened();
        for (number, header) in files_below(&directory_of_headers()).into_iter().enumerate() {
            let name = header.strip_prefix(directory_of_headers())?.display().to_string();
            let turn = number % all.len();
            let chosen = if Extent::from_env().is_full() { all } else { &all[turn..=turn] };
            for (standard, system) in chosen {
                let is_c = !standard.starts_with("c++");
                let file = if is_c { "alone.c" } else { "alone.cpp" };
                let source = self.directory.path().join(file);
                // Included twice, as by two other headers.
                std::fs::write(
                    &source,
                    format!("#include <{name}>\n#include <{name}>\nint nothing;\n"),
                )?;
                let mut compiler = compiler(is_c);
                compiler
                    .args(WARNINGS)
                    .args(["-pedantic-errors", "-fsyntax-only", system])
                    .arg(format!("-std={standard}"))
                    .arg("-I")
                    .arg(directory_of_headers())
                    .arg(&source);
                succeed(compiler, &format!("{name} in {standard} with {system}"))?;
            }
        }
        Ok(())
    }

    /// No function is declared that is not there, and none is there without its documentation.
    fn compare_symbols(&self) -> Result<(), Failed> {
        let mut command = Command::new("nm");
        command.args(["--dynamic", "--defined-only", "--format=posix"]);
        let output = command.arg(self.library.with_extension("so")).output()?;
        let listed = String::from_utf8(output.stdout)?;
        let names = listed.lines().filter_map(|line| line.split(' ').next());
        let exported: BTreeSet<String> =
            names.filter(|name| is_ours(name)).map(str::to_owned).collect();
        let mut declarations = BTreeSet::new();
        for header in files_below(&directory_of_headers()) {
            declarations.extend(declared(&std::fs::read_to_string(header)?));
        }
        let differing: Vec<&String> = exported.symmetric_difference(&declarations).collect();
        if differing.is_empty() && exported.len() > 50 {
            Ok(())
        } else {
            Err(format!("{} exported; in one list alone: {differing:?}", exported.len()).into())
        }
    }

    /// Compiles a program, once for all tests that run it.
    fn build(&self, source: &Path, build: Build) -> Result<PathBuf, Failed> {
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        let program = self.directory.path().join(format!("{stem}-{}", build.name));
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        let result = Arc::clone(built.entry(program.clone()).or_default());
        drop(built);
        result
            .get_or_init(|| match Linkage::of(source) {
                Linkage::Static => self.compile(source, build.flags, &self.library, &program),
                Linkage::Shared => {
                    let search = format!("-Wl,-rpath,{}", self.shared.display());
                    let flags = [build.flags, &[search.as_str()]].concat();
                    self.compile(source, &flags, &self.shared.join(SONAME), &program)
                }
            })
            .clone()?;
        Ok(program)
    }

    fn compile(
        &self,
        source: &Path,
        flags: &[&str],
        library: &Path,
        program: &Path,
    ) -> Result<(), String> {
        let mut compiler = compiler(source.extension() == Some(OsStr::new("c")));
        compiler
            .args(WARNINGS)
            .args(flags)
            .arg("-I")
            .arg(directory_of_headers())
            .arg(source)
            .arg(library)
            .args(["-lpthread", "-ldl", "-lm", "-lgcc_s", "-o"])
            .arg(program);
        if std::env::var_os("LLVM_PROFILE_FILE").is_some() {
            // The runtime that writes the counters of an instrumented library is not referred to here.
            compiler.arg("-Wl,-u,__llvm_profile_runtime");
        }
        succeed(compiler, "the compiler")
    }
}

/// Calls of each message in `gather.c`, in order.
const CALLS: [&str; 4] = ["write", "write_etc", "call", "call_etc"];

/// Runs to the end.
fn succeed(mut command: Command, what: &str) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(describe(what, &output)) }
}

fn describe(what: &str, output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{what} ended with {}\n{out}{err}", output.status)
}
