//! One case, in processes of its own: its networks go with them.

use std::any::Any;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use testbed::network::Network;
use testbed::{Lender, Lent, Program, run_quietly};

use super::case::{Case, NetworkStep, Question, Receiver, Side};
use super::devices::own_address;
use super::draw::{self, Offered};

/// Sends of a case.
const SENDS: u32 = 40;
/// Completions come at once; a machine may be busy.
const PATIENCE: Duration = Duration::from_secs(10);
/// A user without privileges.
const NOBODY: u32 = 65_534;

/// Arguments of a process of a case.
#[derive(clap::Args)]
pub(crate) struct PlayArguments {
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    case: u32,
    #[arg(long)]
    with_vlan: bool,
    #[arg(long)]
    with_prio: bool,
    /// The program to ask.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Hold what this network has beside the sender, instead.
    #[arg(long, value_enum)]
    side: Option<Side>,
}

impl PlayArguments {
    /// The command of a process of a case.
    pub(super) fn command(seed: u64, case: u32, offered: Offered) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("play-doctor-case");
        command.args(["--seed", &seed.to_string(), "--case", &case.to_string()]);
        for (is_offered, flag) in [(offered.vlan, "--with-vlan"), (offered.prio, "--with-prio")] {
            if is_offered {
                command.arg(flag);
            }
        }
        Ok(command)
    }
}

/// The doctor's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Prediction {
    Copied,
    NotCopied,
    Unknown,
}

/// The doctor's report and the observed sends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) predicted: Prediction,
    /// The first sentence of the doctor.
    pub(super) headline: String,
    pub(super) sends: u32,
    pub(super) copied: u32,
}

impl Outcome {
    /// At least one send was copied.
    pub(super) const fn is_copied(&self) -> bool {
        self.copied > 0
    }
}

/// Plays a case, or holds a side of it (`cargo xtask play-doctor-case`).
///
/// # Errors
/// If the case cannot be made, or its sends fail.
pub(crate) fn run(arguments: &PlayArguments) -> Result<()> {
    let offered = Offered { vlan: arguments.with_vlan, prio: arguments.with_prio };
    let case = draw::case(arguments.seed, arguments.case, offered);
    if let Some(side) = arguments.side {
        return hold(&case, side);
    }
    let program = arguments.program.as_deref().context("no program to ask is named")?;
    let network = testbed::network::enter();
    let holder = |side: &str| -> Result<Holder> {
        let mut command = PlayArguments::command(arguments.seed, arguments.case, offered)?;
        Holder::start(command.args(["--side", side]))
    };
    let mut far = if case.has_far() { Some(holder("far")?) } else { None };
    let mut held = apply(&network, &case.links, far.as_ref().map(|far| far.child.id()))?;
    if let Some(far) = &mut far {
        far.go()?;
    }
    held.extend(apply(&network, &case.near, None)?);
    settle()?;
    let mut near = match case.receivers(Side::Near).next() {
        Some(_) => Some(holder("near")?),
        None => None,
    };
    if let Some(near) = &mut near {
        near.go()?;
    }
    println!("{}", serde_json::to_string(&ask_and_send(&case, program)?)?);
    Ok(())
}

fn ask_and_send(case: &Case, program: &Path) -> Result<Outcome> {
    let send = &case.send;
    let lender = Lender::connect(send.to, send.options.clone()).context("cannot connect")?;
    let (predicted, headline) = ask(case, program)?;
    let bytes: &'static [u8] = vec![0x5a; send.bytes].leak();
    let lent: Lent = lender.lend(bytes, SENDS, PATIENCE).context("cannot send")?;
    Ok(Outcome { predicted, headline, sends: lent.sends, copied: lent.copied })
}

fn ask(case: &Case, program: &Path) -> Result<(Prediction, String)> {
    let send = &case.send;
    let asked = Program::new(program).args(["doctor", "--json", "--size"]);
    let asked = asked.arg(send.bytes.to_string());
    let kind = if send.options.is_stream { "tcp" } else { "udp" };
    let address = format!("{kind}://{}", send.to);
    let asked = match case.question {
        Question::Address => asked.arg(address),
        Question::AddressUnprivileged => asked.arg(address).as_user(NOBODY),
        Question::Process => asked.args(["--pid", &std::process::id().to_string()]),
    };
    let run = asked.run();
    let report: Value = serde_json::from_str(&run.stdout)
        .with_context(|| format!("the doctor says {:?}: {}", run.stdout, run.stderr))?;
    let predicted = match report["verdict"].as_str() {
        Some("copied") => Prediction::Copied,
        Some("zero_copy" | "limited") => Prediction::NotCopied,
        Some("unknown") => Prediction::Unknown,
        _ => bail!("the doctor has no verdict: {report}"),
    };
    Ok((predicted, report["headline"].as_str().unwrap_or_default().to_owned()))
}

/// Resources, kept until they are dropped.
type Held = Vec<Box<dyn Any>>;

/// Takes steps, consecutive ones of `ip` by one process.
fn apply(network: &Network, steps: &[NetworkStep], far: Option<u32>) -> Result<Held> {
    let mut held: Held = Vec::new();
    let mut batch = String::new();
    for step in steps {
        match step {
            // A family is named for the whole of a batch.
            NetworkStep::Ip(words) if !words.starts_with('-') => {
                let far = far.map(|far| far.to_string()).unwrap_or_default();
                batch.push_str(&words.replace("{far}", &far));
                batch.push('\n');
                continue;
            }
            _ => run_batch(&mut batch)?,
        }
        match step {
            NetworkStep::Ip(words) => network.ip(words),
            NetworkStep::Tc(words) => network.tc(words),
            NetworkStep::Nft(words) => network.nft(words),
            // Some features of some devices cannot be turned off.
            NetworkStep::Ethtool(words) => drop(run_quietly("ethtool", words.split(' '))),
            NetworkStep::Set(name, value) => network.set(name, *value),
            NetworkStep::Tun(device) => {
                let number: String = device.chars().filter(char::is_ascii_digit).collect();
                held.push(Box::new(network.tun(device, &format!("10.4{number}.0.1/24"))));
            }
            NetworkStep::Tap(tap) => {
                let on = tap.device.as_deref();
                held.push(Box::new(network.tap_of(tap.protocol, on, tap.ignores_outgoing)));
            }
            NetworkStep::Receive(_) => {}
        }
    }
    run_batch(&mut batch)?;
    Ok(held)
}

fn run_batch(batch: &mut String) -> Result<()> {
    let words = std::mem::take(batch);
    if words.is_empty() {
        return Ok(());
    }
    let mut command = Command::new("ip");
    let command = command.args(["-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start ip")?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(words.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip: {}of\n{words}", said);
    Ok(())
}

/// Waits until every device that is up has its carrier, and every address of IPv6 its route: until
/// then packets are dropped (`net/core/link_watch.c`; `addrconf_dad_work` in `net/ipv6/addrconf.c`).
fn settle() -> Result<()> {
    let begin = Instant::now();
    loop {
        let Some(missing) = unsettled()? else { return Ok(()) };
        ensure!(begin.elapsed() < PATIENCE, "{missing}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns an address or a link that is not ready yet.
fn unsettled() -> Result<Option<String>> {
    let shown = |words: &str| -> Result<Vec<Value>> {
        let text = testbed::run_tool("ip", words.split(' '));
        // `ip` prints nothing for an empty list.
        let list = if text.trim().is_empty() { "[]" } else { &text };
        serde_json::from_str(list).with_context(|| format!("ip {words}: {text}"))
    };
    let links = shown("-j address show up")?;
    let is_down =
        |link: &&Value| matches!(link["operstate"].as_str(), Some("DOWN" | "LOWERLAYERDOWN"));
    if let Some(link) = links.iter().find(is_down) {
        return Ok(Some(format!("{} gets no carrier", link["ifname"])));
    }
    let routes = shown("-j -6 route show table local type local")?;
    let has_route = |address: &str| routes.iter().any(|route| route["dst"] == address);
    let addresses = links.iter().flat_map(|link| link["addr_info"].as_array()).flatten();
    let missing = addresses
        .filter(|address| address["family"] == "inet6" && address["scope"] != "link")
        .filter_map(|address| address["local"].as_str())
        .find(|address| !has_route(address));
    Ok(missing.map(|address| format!("{address} gets no route")))
}

/// The process that has the far network, or what of the near one must not be the sender's.
struct Holder {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Holder {
    fn start(command: &mut Command) -> Result<Holder> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start a process of the case")?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("its output is piped")?;
        let mut holder = Holder { child, input, output: BufReader::new(output) };
        holder.hear("ready")?;
        Ok(holder)
    }

    /// Has it take its steps.
    fn go(&mut self) -> Result<()> {
        self.input.as_mut().context("it was started with one")?.write_all(b"go\n")?;
        self.hear("done")
    }

    fn hear(&mut self, word: &str) -> Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(line.trim_end() == word, "a process of the case ended");
        Ok(())
    }
}

/// Ends it.
impl Drop for Holder {
    fn drop(&mut self) {
        self.input = None;
        // It may be over already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Has a side until the standard input ends.
fn hold(case: &Case, side: Side) -> Result<()> {
    let network = if side == Side::Far { testbed::network::enter() } else { Network::here() };
    println!("ready");
    let mut input = BufReader::new(std::io::stdin());
    input.read_line(&mut String::new())?;
    let mut held: Held = Vec::new();
    if side == Side::Far {
        quieten(&network);
        held = apply(&network, &case.far, None)?;
        settle()?;
    }
    for receiver in case.receivers(side) {
        receive(receiver)?;
    }
    println!("done");
    input.read_to_end(&mut Vec::new())?;
    drop(held);
    Ok(())
}

/// Nobody answers what no receiver is there for, so that no send fails. What arrives goes through all
/// of the kernel before.
fn quieten(network: &Network) {
    network.nft("add table inet quiet");
    network.nft("add chain inet quiet o { type filter hook output priority 0; }");
    network.nft("add rule inet quiet o tcp flags & rst == rst drop");
    network.nft("add rule inet quiet o icmp type destination-unreachable drop");
    network.nft("add rule inet quiet o icmpv6 type destination-unreachable drop");
}

/// Starts to receive.
fn receive(receiver: &Receiver) -> Result<()> {
    let any = |is_v6, port| match is_v6 {
        true => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
        false => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port),
    };
    let socket = match receiver {
        Receiver::Stream(port) => {
            let listener = TcpListener::bind(any(true, *port))?;
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    std::thread::spawn(move || drain(stream));
                }
            });
            return Ok(());
        }
        Receiver::Datagrams(port) => UdpSocket::bind(any(true, *port))?,
        Receiver::Member { group, exit, port } => {
            let socket = UdpSocket::bind(any(group.is_ipv6(), *port))?;
            match group {
                IpAddr::V4(group) => {
                    socket.join_multicast_v4(group, &own_address(*exit, false).parse()?)?;
                }
                IpAddr::V6(group) => {
                    let index = Network::here().index_of(&super::devices::device(*exit));
                    socket.join_multicast_v6(group, index)?;
                }
            }
            socket
        }
    };
    std::thread::spawn(move || {
        let mut room = vec![0; 1 << 16];
        loop {
            // An error is one of what it never sends.
            let _ = socket.recv(&mut room);
        }
    });
    Ok(())
}

fn drain(mut from: impl Read) {
    // Whoever sends sees how it ends.
    let _ = std::io::copy(&mut from, &mut std::io::sink());
}
