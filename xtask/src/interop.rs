//! `uncopy bench` with the kernel's own test of `MSG_ZEROCOPY` at the other end
//! (`tools/testing/selftests/net/msg_zerocopy.c`), over loopback.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;

/// Arguments of `cargo xtask interop`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Source of the kernel's test, instead of that in Debian's package of the kernel's source,
    /// which is fetched once (150 MB).
    #[arg(long, value_name = "FILE")]
    source: Option<PathBuf>,
}

/// Where the test lies in the source.
const MEMBER: &str = "tools/testing/selftests/net/msg_zerocopy.c";
const PACKAGE: &str = "linux-source-6.12";
const PORT: u16 = 18_000;
const SENDS_FOR: &str = "1";

/// Both directions, both protocols, both families, and every mode.
///
/// # Errors
/// If something was refused, did not arrive or arrived wrong.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let uncopy = workspace::build_release("uncopy-cli", "uncopy")?;
    let directory = workspace::target_directory().join("interop");
    std::fs::create_dir_all(&directory)?;
    let source = match &arguments.source {
        Some(source) => source.clone(),
        None => fetched(&directory)?,
    };
    let tool = directory.join("msg_zerocopy");
    succeed(Command::new("cc").arg("-O2").arg("-o").arg(&tool).arg(&source))?;
    let ends = Ends { uncopy, tool };
    for family in ["-4", "-6"] {
        for protocol in ["udp", "tcp"] {
            ends.receive(family, protocol)?;
            for mode in ["copy", "msg-zerocopy", "ring", "ring-registered", "auto"] {
                ends.send(family, protocol, mode)?;
            }
        }
    }
    Ok(())
}

/// The test's source out of Debian's package.
fn fetched(directory: &Path) -> Result<PathBuf> {
    let source = directory.join("msg_zerocopy.c");
    if source.exists() {
        return Ok(source);
    }
    let in_directory = |program: &str, words: &[&str]| {
        succeed(Command::new(program).args(words).current_dir(directory))
    };
    in_directory("apt-get", &["download", "-q", PACKAGE])?;
    in_directory("sh", &["-c", &format!("dpkg-deb -x {PACKAGE}_*.deb package")])?;
    let archive = format!("package/usr/src/{PACKAGE}.tar.xz");
    let member = format!("{PACKAGE}/{MEMBER}");
    in_directory("tar", &["-xf", &archive, "--strip-components=5", &member])?;
    in_directory("sh", &["-c", &format!("rm -rf package {PACKAGE}_*.deb")])?;
    Ok(source)
}

struct Ends {
    uncopy: PathBuf,
    tool: PathBuf,
}

impl Ends {
    /// From the kernel's test to `uncopy bench recv`.
    fn receive(&self, family: &str, protocol: &str) -> Result<()> {
        let port = PORT.to_string();
        let mut receiver = Command::new(&self.uncopy);
        receiver.args(["bench", "recv", family, protocol, "-p", &port, "-t", "2.5"]);
        let receiver = Running::start(&mut receiver, family, protocol)?;
        let mut sender = Command::new(&self.tool);
        let here = host(family);
        sender.args([family, "-p", &port, "-t", SENDS_FOR, "-S", here, "-D", here, "-z", protocol]);
        let sent = succeed(&mut sender)?;
        let received = receiver.finish()?;
        let (tx, rx) = (number(&sent, "tx=")?, number(&received, "rx=")?);
        ensure!(tx > 0 && rx > 0, "{sent}{received}");
        if protocol == "tcp" {
            ensure!(number(&sent, "(")? == number(&received, "(")?, "{sent}{received}");
        }
        println!("{family} {protocol}: {} -> {}", sent.trim(), received.trim());
        Ok(())
    }

    /// From `uncopy bench send` to the kernel's test, which looks at every byte of datagrams.
    fn send(&self, family: &str, protocol: &str, mode: &str) -> Result<()> {
        let port = PORT.to_string();
        let mut receiver = Command::new(&self.tool);
        receiver.args([family, "-p", &port, "-t", "2", "-D", host(family), "-r", protocol]);
        let receiver = Running::start(&mut receiver, family, protocol)?;
        let mut sender = Command::new(&self.uncopy);
        let to = ["-D", host(family), "-p", &port, "-t", SENDS_FOR, "--mode", mode];
        sender.args(["bench", "send", family, protocol]).args(to);
        let sent = succeed(&mut sender)?;
        let received = receiver.finish()?;
        let (tx, rx) = (number(&sent, "tx=")?, number(&received, "rx=")?);
        ensure!(tx > 0 && rx > 0, "{sent}{received}");
        if protocol == "tcp" {
            ensure!(number(&sent, "(")? == number(&received, "(")?, "{sent}{received}");
        }
        let first = sent.lines().next().unwrap_or_default();
        println!("{family} {protocol} {mode}: {first} -> {}", received.trim());
        Ok(())
    }
}

fn host(family: &str) -> &'static str {
    if family == "-6" { "::1" } else { "127.0.0.1" }
}

/// The number behind the first `sign`.
fn number(text: &str, sign: &str) -> Result<u64> {
    let behind = text.split_once(sign).with_context(|| format!("no {sign} in {text:?}"))?.1;
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().with_context(|| format!("no number behind {sign} in {text:?}"))
}

/// What a program said that went well, on both its outputs.
fn succeed(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).output();
    said(&name, &output.with_context(|| format!("cannot start {name}"))?)
}

fn said(name: &str, output: &Output) -> Result<String> {
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    ensure!(output.status.success(), "{name}: {}: {}", output.status, text.concat());
    Ok(text.concat())
}

/// A receiver, which goes with this.
struct Running {
    name: String,
    child: Option<Child>,
}

impl Running {
    /// Starts it and waits until it listens.
    fn start(command: &mut Command, family: &str, protocol: &str) -> Result<Running> {
        let name = command.get_program().display().to_string();
        let pipes = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = pipes.spawn().with_context(|| format!("cannot start {name}"))?;
        let running = Running { name, child: Some(child) };
        let table = format!("/proc/net/{protocol}{}", if family == "-6" { "6" } else { "" });
        let begin = Instant::now();
        while !std::fs::read_to_string(&table)?.contains(&format!(":{PORT:04X} ")) {
            if begin.elapsed() > Duration::from_secs(10) {
                bail!("{} does not listen on port {PORT}", running.name);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(running)
    }

    fn finish(mut self) -> Result<String> {
        let child = self.child.take().context("it was not started")?;
        said(&self.name, &child.wait_with_output()?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // One that is over already is no failure.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn the_tools_line_is_read() {
        let line = "tx=129909 (8106 MB) txc=129909 zc=y\n";
        assert_eq!(number(line, "tx=").unwrap(), 129_909);
        assert_eq!(number(line, "(").unwrap(), 8106);
        assert!(number(line, "rx=").is_err() && number(line, "zc=").is_err());
    }
}
