//! The other process: it reads whatever it may.

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::JoinHandle;

use testbed::Scratch;

use crate::cp::NOBODY;

/// Names the directory of the contents that it may find.
pub(crate) const ROLE: &str = "UNCOPY_TEST_READER";

/// Observations that the process printed.
#[derive(Default, Debug)]
pub(super) struct Observations {
    /// Times that it went through everything.
    pub(super) looks: usize,
    /// Files that it read, and that are as they should be.
    pub(super) read: usize,
    /// Files that it was not let into.
    pub(super) refused: usize,
    /// Files that it should not have been let into, or that are not whole.
    pub(super) findings: Vec<String>,
}

/// A process of a user without privileges that goes through a directory without pause.
pub(super) struct Reader {
    process: Child,
    listener: Option<JoinHandle<Observations>>,
    _allowed: Scratch,
}

impl Reader {
    /// It may find files with these contents, whole, and be refused others.
    pub(super) fn start(directory: &Path, allowed: &[&[u8]]) -> Reader {
        let place = Scratch::new_in(&std::env::temp_dir());
        let contents = place.join("allowed");
        fs::DirBuilder::new().mode(0o755).create(&contents).unwrap();
        for (number, bytes) in allowed.iter().enumerate() {
            let path = contents.join(number.to_string());
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        }
        // By an open directory: this user may have no way there by name.
        let mut process = Command::new("/proc/self/exe")
            .env(ROLE, &contents)
            .env("LLVM_PROFILE_FILE", "/dev/null")
            .uid(NOBODY)
            .gid(NOBODY)
            .stdin(File::open(directory).unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        assert_eq!(first, "begin\n", "it looks before anything is copied");
        let listener = std::thread::spawn(move || listen(lines));
        Reader { process, listener: Some(listener), _allowed: place }
    }

    pub(super) fn end(mut self) -> Observations {
        self.process.kill().unwrap();
        self.listener.take().unwrap().join().unwrap()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Until it is killed, perhaps in the middle of a line.
fn listen(lines: impl BufRead) -> Observations {
    let mut seen = Observations::default();
    for line in lines.lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["look", read, refused] = words[..]
            && let (Ok(read), Ok(refused)) = (read.parse::<usize>(), refused.parse::<usize>())
        {
            seen.looks += 1;
            seen.read += read;
            seen.refused += refused;
        } else if let Some(finding) = line.strip_prefix("finding: ") {
            seen.findings.push(finding.to_owned());
        }
    }
    seen
}

/// Runs the reading process until it is killed.
pub(crate) fn play(allowed: &Path) -> ExitCode {
    let contents = fs::read_dir(allowed).unwrap();
    let allowed = contents.map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect();
    let mut look = Look { allowed, read: 0, refused: 0 };
    println!("begin");
    loop {
        (look.read, look.refused) = (0, 0);
        look.go_through(Path::new("/proc/self/fd/0"));
        println!("look {} {}", look.read, look.refused);
    }
}

struct Look {
    allowed: Vec<Vec<u8>>,
    read: usize,
    refused: usize,
}

impl Look {
    fn go_through(&mut self, directory: &Path) {
        // Whatever is there may be gone, or be closed to others.
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.go_through(&entry.path()),
                Ok(kind) if kind.is_file() => self.read(&entry.path()),
                _ => {}
            }
        }
    }

    fn read(&mut self, path: &Path) {
        let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
        let opened = File::options().read(true).custom_flags(flags as i32).open(path);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) => {
                self.refused += usize::from(error.kind() == std::io::ErrorKind::PermissionDenied);
                return;
            }
        };
        let mut found = Vec::new();
        if file.read_to_end(&mut found).is_ok() && self.allowed.contains(&found) {
            self.read += 1;
            return;
        }
        let mode = file.metadata().map_or(0, |metadata| metadata.permissions().mode());
        println!("finding: {} bytes of {} with mode {mode:o}", found.len(), path.display());
    }
}
