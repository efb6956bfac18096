//! Answers logins with a server for each, and says at the end what all of them took: what runs on the other machine
//! is no descendant of the program that is measured here.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::WaitOptions;

use super::far::Far;
use crate::process::ChildrenUsage;

/// Longer than the far end of a copy goes on after the near one.
const PATIENCE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(2);
const READY: &str = "ready";

/// Arguments of `cargo xtask meter-logins`.
#[derive(clap::Args)]
pub(crate) struct MeterArguments {
    /// Where logins come.
    listen: SocketAddr,
    /// Program and arguments of a server that has one connection as its standard input.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    server: Vec<OsString>,
}

/// Answers until the standard input ends, then waits for all that was started and prints its [`ChildrenUsage`] as a
/// line of JSON.
///
/// # Errors
/// If a server cannot be started, or something of it does not end.
pub(crate) fn run(arguments: &MeterArguments) -> Result<()> {
    // Whoever loses its parent becomes a child of this process, and is counted.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let listener = TcpListener::bind(arguments.listen)
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    println!("{READY}");
    std::io::stdout().flush()?;
    let (program, rest) = arguments.server.split_first().context("no server is named")?;
    let stdin = std::io::stdin();
    loop {
        let mut sources =
            [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&listener, PollFlags::IN)];
        match poll(&mut sources, None) {
            Err(Errno::INTR) => continue,
            polled => polled?,
        };
        if !sources[0].revents().is_empty() {
            break;
        }
        let connection = OwnedFd::from(listener.accept()?.0);
        Command::new(program)
            .args(rest)
            .stdin(connection.try_clone()?)
            .stdout(connection)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
    }
    drop(listener);
    wait_for_all()?;
    println!("{}", serde_json::to_string(&ChildrenUsage::now()?)?);
    Ok(())
}

fn wait_for_all() -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Err(Errno::CHILD) => return Ok(()),
            Err(Errno::INTR) | Ok(Some(_)) => {}
            Err(error) => return Err(error.into()),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(GLANCE),
            Ok(None) => {
                bail!("a server has not ended {} seconds after its client", PATIENCE.as_secs())
            }
        }
    }
}

/// A process of `cargo xtask meter-logins` on the other machine, killed when dropped.
pub(super) struct LoginMeter {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl LoginMeter {
    /// Starts it; logins are answered from now on.
    pub(super) fn start(far: &Far, listen: SocketAddr, server: &Command) -> Result<LoginMeter> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("meter-logins").arg(listen.to_string()).arg("--");
        command.arg(server.get_program()).args(server.get_args());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = far.start(command)?;
        let output = BufReader::new(process.stdout.take().context("its output is a pipe")?);
        let mut meter = LoginMeter { process, output };
        let line = meter.line()?;
        if line != READY {
            bail!("the other machine does not answer logins: {line:?}");
        }
        Ok(meter)
    }

    /// Ends it; returns what the servers and what they started have used.
    pub(super) fn finish(mut self) -> Result<ChildrenUsage> {
        drop(self.process.stdin.take());
        let line = self.line()?;
        serde_json::from_str(&line).context("the other machine did not say what it used")
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for LoginMeter {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
