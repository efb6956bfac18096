//! Every way to copy a file, by size, buffered against zero-copy: `cargo bench --bench copy_methods`;
//! `cargo xtask evidence --only copy_methods` keeps its figures as rows.
//!
//! Criterion's own reports lie in `target/criterion/`. After them come three tables: throughput,
//! processor time, small files. Files are made in the target directory's filesystem, or below
//! `UNCOPY_BENCH_DIR`; the source is in the page cache, every destination is new, and nothing is
//! flushed.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;
use uncopy::Mechanism;
use uncopy::copy::{Allow, CopyOptions, copy_file};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

const SMALL: [u64; 5] = [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB];
const LARGE: [u64; 4] = [MIB, 10 * MIB, 100 * MIB, GIB];
const PARALLEL_FILES: usize = 100;
const PARALLEL_FILE_BYTES: u64 = 4 * MIB;

/// One copy's wall and processor time.
type Sample = (Duration, Duration);
/// Bytes of one file, and how many are copied side by side.
type Case = (u64, usize);

type Samples = BTreeMap<(Case, &'static str), Vec<Sample>>;

static SAMPLES: LazyLock<Mutex<Samples>> = LazyLock::new(Mutex::default);

struct Bench {
    directory: TempDir,
    made: AtomicUsize,
}

impl Bench {
    fn new() -> Bench {
        let below = std::env::var_os("UNCOPY_BENCH_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
        let directory = TempDir::with_prefix_in("copy_methods-", below).expect("a directory");
        Bench { directory, made: AtomicUsize::new(0) }
    }

    /// A name that was never used: ext4 is slow with names deleted a moment ago.
    fn new_path(&self) -> PathBuf {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        self.directory.path().join(format!("{number}"))
    }

    fn source(&self, bytes: u64) -> PathBuf {
        let path = self.new_path();
        let mut file = fs::File::create(&path).expect("a source");
        let block: Vec<u8> =
            (0..8 * MIB).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let mut left = bytes;
        while left > 0 {
            let n = left.min(block.len() as u64);
            file.write_all(&block[..n as usize]).expect("a full source");
            left -= n;
        }
        file.sync_all().expect("a source on disk");
        path
    }

    /// The methods that work in this directory.
    fn methods(&self, source: &Path) -> Vec<(&'static str, CopyOptions)> {
        let mut methods = vec![("auto", CopyOptions::default())];
        for mechanism in Mechanism::LINUX {
            let mut options = CopyOptions::default();
            options.allow = Allow::Only(mechanism);
            let name =
                if mechanism == Mechanism::ReadWrite { "buffered" } else { mechanism.name() };
            let trial = self.new_path();
            if copy_file(source, &trial, &options).is_ok() {
                methods.push((name, options));
                let _ = fs::remove_file(trial);
            }
        }
        methods
    }

    /// Copies `source` once, timed; what was written is removed outside the time.
    fn copy(&self, source: &Path, case: Case, options: &CopyOptions) -> Sample {
        let destinations: Vec<_> = (0..case.1).map(|_| self.new_path()).collect();
        let (wall, cpu) = (Instant::now(), processor_time());
        match destinations.as_slice() {
            [one] => drop(copy_file(source, one, options).expect("a copy")),
            many => copy_side_by_side(source, many, options),
        }
        let sample = (wall.elapsed(), processor_time().saturating_sub(cpu));
        if case.0 >= 256 * KIB {
            destinations.iter().for_each(|d| drop(fs::remove_file(d)));
        }
        sample
    }
}

fn copy_side_by_side(source: &Path, destinations: &[PathBuf], options: &CopyOptions) {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for share in destinations.chunks(destinations.len().div_ceil(workers)) {
            scope.spawn(move || {
                for destination in share {
                    copy_file(source, destination, options).expect("a copy");
                }
            });
        }
    });
}

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn run(criterion: &mut Criterion, name: &str, cases: &[Case]) {
    let bench = Bench::new();
    let mut group = criterion.benchmark_group(format!("copy_methods/{name}"));
    group.sample_size(10);
    // Copies of a GiB take their second all the same: the whole in less than three minutes.
    group.warm_up_time(Duration::from_millis(20));
    group.measurement_time(Duration::from_millis(400));
    for case in cases.iter().copied() {
        let source = bench.source(case.0);
        group.throughput(Throughput::Bytes(case.0 * case.1 as u64));
        for (method, options) in bench.methods(&source) {
            group.bench_function(BenchmarkId::new(method, label(case)), |bencher| {
                bencher.iter_custom(|iterations| {
                    let samples: Vec<_> =
                        (0..iterations).map(|_| bench.copy(&source, case, &options)).collect();
                    let total = samples.iter().map(|(wall, _)| *wall).sum();
                    let mut all = SAMPLES.lock().expect("no panic before");
                    all.entry((case, method)).or_default().extend(samples);
                    total
                });
            });
        }
        let _ = fs::remove_file(source);
    }
    group.finish();
}

fn copy_methods(criterion: &mut Criterion) {
    run(criterion, "small", &SMALL.map(|bytes| (bytes, 1)));
    run(criterion, "large", &LARGE.map(|bytes| (bytes, 1)));
    run(criterion, "parallel", &[(PARALLEL_FILE_BYTES, PARALLEL_FILES)]);
}

fn label(case: Case) -> String {
    let (bytes, files) = case;
    let size = match bytes {
        GIB.. => format!("{} GiB", bytes / GIB),
        MIB.. => format!("{} MiB", bytes / MIB),
        _ => format!("{} KiB", bytes / KIB),
    };
    if files == 1 { size } else { format!("{files} files of {size}") }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Prints one line a case and one column a method.
fn table(title: &str, cases: &[Case], cell: impl Fn(Case, &[Sample]) -> String) {
    let samples = SAMPLES.lock().expect("no panic before");
    let mut methods: Vec<_> = samples.keys().map(|(_, method)| *method).collect();
    methods.sort_unstable();
    methods.dedup();
    println!("\n{title}");
    print!("{:22}", "size");
    methods.iter().for_each(|method| print!("{method:>17}"));
    println!();
    for case in cases {
        print!("{:22}", label(*case));
        for method in &methods {
            let text = samples.get(&(*case, *method)).map(|all| cell(*case, all));
            print!("{:>17}", text.as_deref().unwrap_or("–"));
        }
        println!();
    }
}

fn tables() {
    let seconds = |samples: &[Sample], pick: fn(&Sample) -> Duration| {
        median(samples.iter().map(|s| pick(s).as_secs_f64()).collect())
    };
    let single = |sizes: &[u64]| sizes.iter().map(|bytes| (*bytes, 1)).collect::<Vec<Case>>();
    table("Throughput, MB/s (median)", &single(&LARGE), |(bytes, _), samples| {
        format!("{:.0}", bytes as f64 / 1e6 / seconds(samples, |s| s.0))
    });
    let mut cpu_cases = single(&[100 * MIB, GIB]);
    cpu_cases.push((PARALLEL_FILE_BYTES, PARALLEL_FILES));
    table("Processor time, ms per GiB (median)", &cpu_cases, |(bytes, files), samples| {
        let gib = bytes as f64 * files as f64 / GIB as f64;
        format!("{:.0}", seconds(samples, |s| s.1) * 1e3 / gib)
    });
    table("Processor use, % of one core while copying (median)", &cpu_cases, |_, samples| {
        let use_of_core = |(wall, cpu): &Sample| 100.0 * cpu.as_secs_f64() / wall.as_secs_f64();
        format!("{:.0}", median(samples.iter().map(use_of_core).collect()))
    });
    table("Small files, ms (median)", &single(&SMALL), |_, samples| {
        format!("{:.3}", seconds(samples, |s| s.0) * 1e3)
    });
}

/// Appends the medians to the file that `UNCOPY_BENCH_ROWS` names, as JSON Lines: the rows of
/// `cargo xtask evidence`.
fn rows() -> std::io::Result<()> {
    let Some(path) = std::env::var_os("UNCOPY_BENCH_ROWS") else { return Ok(()) };
    let samples = SAMPLES.lock().expect("no panic before");
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path)?;
    for ((case, method), all) in samples.iter() {
        let walls = all.iter().map(|(wall, _)| wall.as_secs_f64()).collect();
        let cpus = all.iter().map(|(_, cpu)| cpu.as_secs_f64()).collect();
        for (metric, value) in [("wall", median(walls)), ("cpu", median(cpus))] {
            // No name here has anything that JSON would escape.
            writeln!(
                file,
                "{{\"suite\":\"copy_methods\",\"case\":\"{}\",\"subject\":\"{method}\",\
                 \"metric\":\"{metric}\",\"value\":{value},\"unit\":\"s\",\"role\":\"own\"}}",
                label(*case),
            )?;
        }
    }
    Ok(())
}

criterion_group!(benches, copy_methods);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    if std::env::args().all(|argument| argument != "--list") {
        tables();
        rows().expect("rows in the file that UNCOPY_BENCH_ROWS names");
    }
}
