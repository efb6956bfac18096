//! A cluster of one node, with a key, daemons and ports of its own, which nothing of this machine's touches.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use testbed::{Place, Scratch, run_tool, seeded, wait_for};

/// Number of elements that an array may have here.
const MAX_ARRAY: usize = 12;

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobEnd {
    Code(i32),
    Signal(i32),
}

/// Daemons of a cluster.
pub(super) struct Cluster {
    daemons: Vec<Child>,
    directory: Scratch,
    /// Socket of munged, whose path must be short, below a directory that only its owner writes to.
    _socket: tempfile::TempDir,
}

impl Cluster {
    pub(super) fn start() -> Cluster {
        let directory = Place::TestDirectory.scratch();
        let socket = tempfile::Builder::new().prefix("m-").tempdir_in("/tmp").unwrap();
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(socket.path(), permissions).unwrap();
        for name in ["state", "spool"] {
            fs::DirBuilder::new().mode(0o755).create(directory.join(name)).unwrap();
        }
        let mut cluster = Cluster { daemons: Vec::new(), directory, _socket: socket };
        cluster.start_munge();
        cluster.configure();
        let configuration = cluster.configuration();
        cluster.daemon("slurmctld", &["-D", "-f"], &configuration);
        wait_for("controller", || cluster.scontrol(&["ping"]).contains("UP"));
        cluster.daemon("slurmd", &["-D", "-f"], &configuration);
        wait_for("node", || cluster.scontrol(&["show", "node"]).contains("State=IDLE"));
        cluster
    }

    /// Returns the file that clients find the cluster by.
    pub(super) fn configuration(&self) -> PathBuf {
        self.directory.join("slurm.conf")
    }

    pub(super) fn max_array(&self) -> usize {
        MAX_ARRAY
    }

    fn socket(&self) -> PathBuf {
        self._socket.path().join("munge")
    }

    fn start_munge(&mut self) {
        let at = |name: &str| self._socket.path().join(name).display().to_string();
        let key = at("key");
        let mut file = File::options().write(true).create_new(true).mode(0o400).open(&key).unwrap();
        std::io::Write::write_all(&mut file, &seeded(1, 0, 1024)).unwrap();
        let words = [
            "--foreground".to_owned(),
            format!("--key-file={key}"),
            format!("--socket={}", self.socket().display()),
            format!("--pid-file={}", at("pid")),
            format!("--log-file={}", at("log")),
            format!("--seed-file={}", at("seed")),
        ];
        self.start_daemon("munged", &words);
        let socket = self.socket();
        wait_for("munged", || socket.exists());
    }

    fn configure(&self) {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim();
        let user = run_tool("id", ["-un"]);
        let user = user.trim();
        let port = || {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            free.local_addr().unwrap().port()
        };
        let (controller, node) = (port(), port());
        let at = |name: &str| self.directory.join(name).display().to_string();
        let text = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\n\
             SlurmdPort={node}\nSlurmUser={user}\nSlurmdUser={user}\nAuthType=auth/munge\n\
             AuthInfo=socket={socket}\nCredType=cred/munge\nStateSaveLocation={state}\n\
             SlurmdSpoolDir={spool}\nSlurmctldPidFile={controller_id}\nSlurmdPidFile={node_id}\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\n\
             MpiDefault=none\nJobCompType=jobcomp/none\n\
             AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nReturnToService=2\n\
             SlurmdParameters=config_overrides\nMinJobAge=600\nMaxArraySize={MAX_ARRAY}\n\
             SchedulerParameters=batch_sched_delay=0,sched_interval=1\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN\n\
             PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP\n",
            socket = self.socket().display(),
            state = at("state"),
            spool = at("spool"),
            controller_id = at("slurmctld.pid"),
            node_id = at("slurmd.pid"),
        );
        fs::write(self.configuration(), text).unwrap();
    }

    fn daemon(&mut self, name: &str, words: &[&str], configuration: &Path) {
        let words = words.iter().map(ToString::to_string);
        let words: Vec<String> = words.chain([configuration.display().to_string()]).collect();
        self.start_daemon(name, &words);
    }

    fn start_daemon(&mut self, name: &str, words: &[String]) {
        let log = File::create(self.directory.join(format!("{name}.log"))).unwrap();
        let directories = std::env::var("PATH").unwrap();
        let path = format!("{directories}:/usr/sbin:/sbin");
        let daemon = Command::new("env")
            .args([&format!("PATH={path}"), name])
            .args(words)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.daemons.push(daemon.unwrap());
    }

    fn tool(&self, name: &str, words: &[&str]) -> String {
        let output =
            Command::new(name).args(words).env("SLURM_CONF", self.configuration()).output();
        String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
    }

    fn scontrol(&self, words: &[&str]) -> String {
        self.tool("scontrol", words)
    }

    /// Whether Slurm shows this of a job.
    pub(super) fn shows(&self, job: u32, what: &str) -> bool {
        self.scontrol(&["show", "job", &job.to_string()]).contains(what)
    }

    /// Waits until jobs have ended. Returns how each, or each element of an array, did.
    pub(super) fn wait(&self, jobs: &[u32]) -> BTreeMap<String, JobEnd> {
        wait_for("end of the jobs", || {
            let running = self.tool("squeue", &["--noheader", "--format=%F"]);
            !running.lines().any(|line| jobs.contains(&line.trim().parse().unwrap_or(0)))
        });
        let mut ends = BTreeMap::new();
        for job in jobs {
            let shown = self.scontrol(&["--oneliner", "show", "job", &job.to_string()]);
            for line in shown.lines() {
                let field = |name: &str| {
                    let mut fields = line.split(' ').filter_map(|field| field.split_once('='));
                    fields.find(|(key, _)| *key == name).map(|(_, value)| value)
                };
                let name = match field("ArrayTaskId") {
                    Some(element) => format!("{job}_{element}"),
                    None => job.to_string(),
                };
                let (code, signal) = field("ExitCode").unwrap().split_once(':').unwrap();
                let end = match signal.parse().unwrap() {
                    0 => JobEnd::Code(code.parse().unwrap()),
                    signal => JobEnd::Signal(signal),
                };
                ends.insert(name, end);
            }
        }
        ends
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in ["slurmctld", "slurmd", "munged"] {
                let log = fs::read_to_string(self.directory.join(format!("{name}.log")));
                let log = log.unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let last = &lines[lines.len().saturating_sub(15)..];
                eprintln!("{name}:\n{}", last.join("\n"));
            }
        }
        // Steps of jobs are no children of the daemon.
        self.tool("scancel", &["--signal=KILL", "--full", "--partition=all"]);
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
