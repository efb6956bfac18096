//! Programs in C and C++, compiled by the system's compilers and run: plainly, with the kernel
//! copying, and under AddressSanitizer and UndefinedBehaviorSanitizer. With `UNCOPY_TEST_VALGRIND`
//! set, those without sanitizers run under Valgrind as well.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};

const SANITIZERS: &str = "-fsanitize=address,undefined";
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-g"];

/// What is compiled with, and where to.
struct Bench {
    directory: tempfile::TempDir,
    library: PathBuf,
}

/// One way to build a program.
#[derive(Clone, Copy)]
struct Build {
    name: &'static str,
    flags: &'static [&'static str],
}

const C_BUILDS: [Build; 2] = [
    Build { name: "c11", flags: &["-std=gnu11", "-O1"] },
    Build {
        name: "sanitized",
        flags: &["-std=gnu11", SANITIZERS, "-fno-sanitize-recover=undefined", "-O1"],
    },
];

const CPP_BUILDS: [Build; 4] = [
    Build { name: "c++17", flags: &["-std=c++17"] },
    Build { name: "c++20", flags: &["-std=c++20"] },
    Build { name: "c++20-fuchsia", flags: &["-std=c++20", "-D__Fuchsia__"] },
    Build {
        name: "sanitized",
        flags: &["-std=c++17", SANITIZERS, "-fno-sanitize-recover=undefined"],
    },
];

fn main() {
    let arguments = Arguments::from_args();
    let bench = match Bench::new() {
        Ok(bench) => Arc::new(bench),
        Err(why) => {
            eprintln!("cannot test C programs: {why}");
            std::process::exit(1);
        }
    };
    let can_sanitize = bench.can_sanitize();
    let mut trials = vec![Trial::test("shared_library", {
        let bench = bench.clone();
        move || bench.run_with_shared_library()
    })];
    for source in sources() {
        let is_c = source.extension() == Some(OsStr::new("c"));
        let builds: &'static [Build] = if is_c { &C_BUILDS } else { &CPP_BUILDS };
        for build in builds {
            let is_sanitized = build.flags.contains(&SANITIZERS);
            let stem = source.file_stem().and_then(OsStr::to_str).unwrap_or("?");
            let name = format!("{stem}/{}", build.name);
            let (bench, source) = (bench.clone(), source.clone());
            let trial = Trial::test(name, move || bench.build_and_run(&source, *build));
            trials.push(trial.with_ignored_flag(is_sanitized && !can_sanitize));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn directory_of_programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c")
}

/// Runs a program under Valgrind, in which bad pointers are expected where they are tried.
fn valgrind(program: &Path) -> Command {
    let mut command = Command::new("valgrind");
    let known = directory_of_programs().join("valgrind.supp");
    command
        .args(["--quiet", "--error-exitcode=99", "--leak-check=full"])
        .arg(format!("--suppressions={}", known.display()))
        .arg(program)
        .env("UNCOPY_ZX_TEST_SHORT", "1");
    command
}

/// The programs, sorted.
fn sources() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory_of_programs());
    let entries = entries.expect("the programs lie beside this test");
    let mut sources: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable directory").path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "c" || kind == "cpp"))
        .collect();
    sources.sort();
    sources
}

impl Bench {
    fn new() -> Result<Bench, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        // Cargo puts all artefacts of the library beside the test program.
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let library = own.with_file_name("libuncopy_zx.a");
        if library.is_file() {
            Ok(Bench { directory, library })
        } else {
            Err(format!("{} is missing; run this by `cargo test`", library.display()))
        }
    }

    /// The compiler has sanitizers, and they work here.
    fn can_sanitize(&self) -> bool {
        let source = self.directory.path().join("empty.c");
        let program = self.directory.path().join("empty");
        std::fs::write(&source, "int main(void) { return 0; }\n").is_ok()
            && Command::new("cc")
                .args([SANITIZERS, "-o"])
                .args([&program, &source])
                .output()
                .is_ok_and(|output| output.status.success())
            && Command::new(&program).output().is_ok_and(|output| output.status.success())
    }

    fn build_and_run(&self, source: &Path, build: Build) -> Result<(), Failed> {
        let program = self.build(source, build, &self.library)?;
        succeed(Command::new(&program), "the program")?;
        let mut with_kernel = Command::new(&program);
        with_kernel.env("UNCOPY_ZX_TEST_KERNEL", "1");
        succeed(with_kernel, "the program with the kernel copying")?;
        let is_asked = std::env::var_os("UNCOPY_TEST_VALGRIND").is_some();
        // Crashes are not what it is for.
        let can_help = !build.flags.contains(&SANITIZERS) && !program.ends_with("crash-c11");
        if is_asked && can_help { succeed(valgrind(&program), "Valgrind") } else { Ok(()) }
    }

    /// A program finds the library by the name that the library says of itself.
    fn run_with_shared_library(&self) -> Result<(), Failed> {
        let directory = self.directory.path().join("shared");
        std::fs::create_dir_all(&directory)?;
        let library = directory.join("libuncopy_zx.so");
        std::fs::copy(self.library.with_extension("so"), &library)?;
        let source = directory_of_programs().join("raii.cpp");
        let program = self.build(&source, Build { name: "shared", flags: &[] }, &library)?;
        let run = || {
            let mut command = Command::new(&program);
            command.env("LD_LIBRARY_PATH", &directory);
            command
        };
        if succeed(run(), "the program").is_ok() {
            return Err("it was found by another name than its SONAME".into());
        }
        std::fs::rename(&library, directory.join("libuncopy_zx.so.0"))?;
        succeed(run(), "the program")
    }

    fn build(&self, source: &Path, build: Build, library: &Path) -> Result<PathBuf, Failed> {
        let is_c = source.extension() == Some(OsStr::new("c"));
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        let program = self.directory.path().join(format!("{stem}-{}", build.name));
        let mut compiler = Command::new(if is_c { "cc" } else { "c++" });
        compiler
            .args(WARNINGS)
            .args(build.flags)
            .arg("-I")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"))
            .arg(source)
            .arg(library)
            .args(["-lpthread", "-ldl", "-lm", "-lgcc_s", "-o"])
            .arg(&program);
        succeed(compiler, "the compiler")?;
        Ok(program)
    }
}

/// Runs to the end.
fn succeed(mut command: Command, what: &str) -> Result<(), Failed> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(describe(what, &output).into()) }
}

fn describe(what: &str, output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{what} ended with {}\n{out}{err}", output.status)
}
