//! `uncopy fleet slurm` with a real cluster of one node.

mod cluster;

use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use testbed::{Case, Need, Program, Run, Sshd};

use crate::work::{There, Work, failed, fleet};
use cluster::{Cluster, JobEnd};

const CLUSTER: [Need; 7] = [
    Need::Tool("munged"),
    Need::Tool("slurmctld"),
    Need::Tool("slurmd"),
    Need::Tool("sbatch"),
    Need::Tool("scontrol"),
    Need::Tool("sshd"),
    Need::Tool("ssh"),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = testbed::cases![
        [] machines_without_slurm,
        [Need::Tool("scontrol")] clusters_that_do_not_answer,
    ];
    // Together, so that the cluster is started once.
    cases.push(
        Case::new("slurm::jobs", &CLUSTER, || {
            let cluster = Cluster::start();
            units_are_elements_of_an_array(&cluster);
            odd_paths_and_more_units_than_elements(&cluster);
            options_of_the_user(&cluster);
            what_sbatch_refuses(&cluster);
            roots_on_another_machine(&cluster);
        })
        .begins_first(),
    );
    cases
}

fn slurm(work: &Work, cluster: &Cluster) -> Program {
    let program = fleet(["slurm", "--program"]).arg(work.uncopy()).arg(work.directory());
    work.in_environment(program.env("SLURM_CONF", cluster.configuration()))
}

/// Returns the numbers of the jobs that a run says it submitted.
fn jobs(run: &Run) -> Vec<u32> {
    assert!(run.status.success(), "{}: {}{}", run.status, run.stderr, run.stdout);
    let numbers = run.stdout.lines().filter_map(|line| line.strip_prefix("job "));
    numbers.map(|rest| rest.split(':').next().unwrap().parse().unwrap()).collect()
}

/// Array with a unit that failed, because the user has put a file in the way.
struct FailedUnit {
    array: u32,
    failing: usize,
    /// The user's file.
    user: PathBuf,
}

/// Submits a plan of which one unit fails, and waits for its jobs: every other element ends well, and the last unit waits for
/// another submission.
fn submit_with_one_that_fails(work: &Work, cluster: &Cluster) -> FailedUnit {
    let count = work.units().len();
    let taken = "d1/e1/f1";
    let user = work.destination().join(taken);
    fs::create_dir_all(user.parent().unwrap()).unwrap();
    fs::write(&user, "the user's").unwrap();
    let run = slurm(work, cluster).run();
    let [array, last] = jobs(&run)[..] else { panic!("{}", run.stdout) };
    let ends = cluster.wait(&[array, last]);
    let failing = work.unit_of(taken);
    for unit in 0..count - 1 {
        let expected = i32::from(unit == failing);
        assert_eq!(ends[&format!("{array}_{unit}")], JobEnd::Code(expected), "{ends:?}");
    }
    assert_eq!(ends[&last.to_string()], JobEnd::Code(10), "{ends:?}");
    assert_eq!(work.status()["done"], count - 2);
    FailedUnit { array, failing, user }
}

/// Ten units, one of which fails: its element ends with the code of the unit, all others are done, and the last unit waits
/// for another submission, which has what is left and nothing else.
fn units_are_elements_of_an_array(cluster: &Cluster) {
    let work = Work::new();
    work.fill(45);
    work.plan(&["--files=5"]);
    let FailedUnit { array, failing, user: there } = submit_with_one_that_fails(&work, cluster);
    let output = work.directory().join(format!("slurm/0001/slurm-{array}_{failing}.out"));
    let output = fs::read_to_string(output).unwrap();
    assert!(output.contains("exit code 1"), "{output}");
    assert_eq!(fs::read(&there).unwrap(), b"the user's");
    fs::remove_file(&there).unwrap();
    let run = slurm(&work, cluster).run();
    assert!(run.stdout.contains(": 1 unit\n"), "{}", run.stdout);
    let [array, last] = jobs(&run)[..] else { panic!("{}", run.stdout) };
    let ends = cluster.wait(&[array, last]);
    assert!(ends.values().all(|end| *end == JobEnd::Code(0)), "{ends:?}");
    let run = slurm(&work, cluster).run();
    assert_eq!(run.stdout, "all units are done\n");
    work.assert_done();
}

/// The array has no more elements than the cluster allows; paths may have any bytes.
fn odd_paths_and_more_units_than_elements(cluster: &Cluster) {
    let work = Work::planned_in(OsStr::from_bytes(b"it's \"the\" plan $HOME `x` %A \\ \xff*"));
    work.fill(100);
    work.plan(&["--files=3"]);
    let units = work.units().len();
    assert!(units > cluster.max_array() * 2);
    let run = slurm(&work, cluster).arg("--together=2").run();
    let [array, last] = jobs(&run)[..] else { panic!("{}", run.stdout) };
    let ends = cluster.wait(&[array, last]);
    assert!(ends.values().all(|end| *end == JobEnd::Code(0)), "{ends:?}");
    assert!(ends.len() <= cluster.max_array() + 1, "{ends:?}");
    work.assert_done();
}

/// They come first: what the job is, they cannot undo.
fn options_of_the_user(cluster: &Cluster) {
    let work = Work::new();
    work.fill(20);
    work.plan(&["--files=4"]);
    let output = work.scratch.join("output of %A.txt");
    let run = slurm(&work, cluster)
        .args(["--together=100", "--", "--comment=of the user", "--no-requeue", "--output"])
        .arg(&output)
        .run();
    let [array, last] = jobs(&run)[..] else { panic!("{}", run.stdout) };
    let ends = cluster.wait(&[array, last]);
    assert_eq!(ends.len(), 2, "{ends:?}");
    assert_eq!(ends[&format!("{array}_0")], JobEnd::Code(0));
    assert!(work.scratch.join(format!("output of {array}.txt")).exists());
    assert!(cluster.shows(array, "Comment=of the user"));
    assert!(cluster.shows(array, "Requeue=1"));
    work.assert_done();
    let run = slurm(&work, cluster).args(["--", "--array=7-9"]).run();
    assert!(failed(&run, 2).contains("--array=7-9"), "{}", run.stderr);
}

fn what_sbatch_refuses(cluster: &Cluster) {
    let work = Work::new();
    work.fill(2);
    work.plan(&[]);
    let run = slurm(&work, cluster).args(["--", "--partition=nowhere"]).run();
    assert!(
        failed(&run, 11).contains("nowhere") || run.stderr.contains("partition"),
        "{}",
        run.stderr
    );
    let dry = slurm(&work, cluster).args(["--dry-run", "--", "--partition=nowhere"]).run();
    assert!(dry.status.success(), "{}", dry.stderr);
    assert!(dry.stdout.starts_with("#!/bin/sh\n"), "{}", dry.stdout);
    assert!(dry.stdout.contains("--dependency=afterany:JOB"), "{}", dry.stdout);
}

/// Jobs log in by what the environment of the submission says, as `sbatch` passes it on.
fn roots_on_another_machine(cluster: &Cluster) {
    let sshd = Sshd::start();
    for there in [There::Source, There::Destination] {
        let mut work = Work::between(there, &sshd);
        work.fill(25);
        work.plan(&["--files=5"]);
        let FailedUnit { user, .. } = submit_with_one_that_fails(&work, cluster);
        fs::remove_file(&user).unwrap();
        if there == There::Destination {
            let shell = work.set_remote_shell("false");
            let run = slurm(&work, cluster).run();
            assert!(failed(&run, 9).contains("uncopy unit status"), "{}", run.stderr);
            work.set_remote_shell(shell);
        }
        let run = slurm(&work, cluster).run();
        assert!(run.stdout.contains(": 1 unit\n"), "{}", run.stdout);
        let ends = cluster.wait(&jobs(&run));
        assert!(ends.values().all(|end| *end == JobEnd::Code(0)), "{ends:?}");
        assert_eq!(slurm(&work, cluster).run().stdout, "all units are done\n");
        work.assert_done();
    }
}

fn without_slurm(work: &Work) -> Program {
    let program = fleet(["slurm", "--program"]).arg(work.uncopy()).arg(work.directory());
    program.env("PATH", "/nonexistent").env("SLURM_CONF", "/nonexistent/slurm.conf")
}

fn machines_without_slurm() {
    let work = Work::new();
    work.fill(2);
    work.plan(&[]);
    let run = without_slurm(&work).run();
    assert!(failed(&run, 11).contains("on a node that submits jobs"), "{}", run.stderr);
    assert!(!work.directory().join("slurm").exists());
    let dry = without_slurm(&work).arg("--dry-run").run();
    assert!(dry.status.success(), "{}", dry.stderr);
    assert!(dry.stdout.contains("'--array=0-0'"), "{}", dry.stdout);
    assert!(!work.directory().join("slurm").exists());
    let run = fleet(["slurm"]).arg(work.source()).run();
    assert!(failed(&run, 1).contains("there is no plan"), "{}", run.stderr);
}

fn clusters_that_do_not_answer() {
    let work = Work::new();
    work.fill(2);
    work.plan(&[]);
    // Bound and never listened at.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = format!(
        "ClusterName=test\nSlurmctldHost=x(127.0.0.1)\nSlurmctldPort={}\nMessageTimeout=1\nNodeName=x\n",
        closed.port()
    );
    let configuration = work.scratch.join("slurm.conf");
    fs::write(&configuration, text).unwrap();
    let program = fleet(["slurm", "--program"]).arg(work.uncopy()).arg(work.directory());
    let run = program.env("SLURM_CONF", &configuration).run();
    assert!(failed(&run, 11).contains("scontrol ping"), "{}", run.stderr);
}
