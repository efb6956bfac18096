//! Capabilities for programs, documented in `docs/json.md`.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::Serialize;
use uncopy::Errno;
use uncopy::capabilities as found;

use super::verdicts::{PairVerdict, Verdicts};
use crate::report::Failure;
use crate::report::json::{Problem, SCHEMA, base64_name, line};

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    kernel: Kernel<'a>,
    paths: Vec<PathReport<'a>>,
    pairs: Vec<Pair<'a>>,
}

#[derive(Serialize)]
struct Pair<'a> {
    from: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_base64: Option<String>,
    to: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to_base64: Option<String>,
    verdict: Option<PathVerdict>,
}

/// How files go; absent where it could not be tried.
#[derive(Serialize)]
struct PathVerdict {
    cost: &'static str,
    mechanism: &'static str,
    when_durable: bool,
}

impl PathVerdict {
    fn of(pair: &PairVerdict) -> Option<PathVerdict> {
        let verdict = pair.verdict.as_ref().ok()?;
        Some(PathVerdict {
            cost: verdict.cost.name(),
            mechanism: verdict.mechanism.name(),
            when_durable: verdict.when_durable,
        })
    }
}

#[derive(Serialize)]
struct Kernel<'a> {
    release: &'a str,
    io_uring: IoUring,
    msg_zerocopy: Vec<Socket>,
    limits: Limits,
}

#[derive(Serialize)]
struct IoUring {
    #[serde(flatten)]
    available: Answer,
    disabled: Option<u8>,
    supported: Vec<&'static str>,
    unsupported: Vec<&'static str>,
}

#[derive(Serialize)]
struct Socket {
    socket: &'static str,
    #[serde(flatten)]
    answer: Answer,
}

/// Limits; `null`: unlimited, or for the first two unknown.
#[derive(Serialize)]
struct Limits {
    pipe_max_bytes: Option<u64>,
    optmem_max_bytes: Option<u64>,
    memlock_soft_bytes: Option<u64>,
    memlock_hard_bytes: Option<u64>,
    open_files_soft: Option<u64>,
    open_files_hard: Option<u64>,
}

#[derive(Serialize)]
struct PathReport<'a> {
    path: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    #[serde(flatten)]
    outcome: Outcome<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Outcome<'a> {
    Answered {
        verdict: Option<PathVerdict>,
        #[serde(flatten)]
        storage: Box<Storage<'a>>,
    },
    Failed {
        error: Problem<'a>,
    },
}

#[derive(Serialize)]
struct Storage<'a> {
    directory: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory_base64: Option<String>,
    filesystem: String,
    device: Device<'a>,
    reflink: Answer,
    copy_file_range: CopyFileRange,
    direct: Direct,
    holes: Answer,
    seek_hole: Answer,
    punch_hole: Answer,
    fallocate: Answer,
    unnamed_files: Answer,
    rename_noreplace: Answer,
}

#[derive(Serialize)]
struct Device<'a> {
    name: Option<&'a str>,
    kind: &'static str,
    rotational: Option<bool>,
    transport: Option<&'static str>,
}

#[derive(Serialize)]
struct CopyFileRange {
    #[serde(flatten)]
    answer: Answer,
    sharing: Option<&'static str>,
}

#[derive(Serialize)]
struct Direct {
    #[serde(flatten)]
    write: Answer,
    memory_alignment_bytes: Option<u32>,
    offset_alignment_bytes: Option<u32>,
}

#[derive(Serialize)]
pub(crate) struct Answer {
    answer: &'static str,
    errno: Option<i32>,
    errno_name: Option<&'static str>,
    reason: Option<String>,
    code: Option<&'static str>,
}

impl<T> From<&found::Answer<T>> for Answer {
    fn from(answer: &found::Answer<T>) -> Answer {
        let (answer, errno, reason) = match answer {
            found::Answer::Yes(_) => ("yes", None, None),
            found::Answer::No { errno, reason } => ("no", *errno, Some(reason)),
            found::Answer::Unknown { reason } => ("unknown", None, Some(reason)),
        };
        Answer {
            answer,
            errno: errno.map(Errno::raw),
            errno_name: errno.and_then(Errno::name),
            reason: reason.map(ToString::to_string),
            code: reason.map(found::AnswerReason::code),
        }
    }
}

/// Formats the capabilities as one object on one line.
pub(super) fn report(
    kernel: &found::Kernel,
    paths: &[PathBuf],
    storages: &[Result<found::Storage, Failure>],
    verdicts: &Verdicts,
) -> String {
    let paths = paths.iter().zip(storages).zip(&verdicts.within);
    let paths = paths.map(|((path, storage), within)| {
        path_object(path, storage, within.as_ref().and_then(PathVerdict::of))
    });
    let pairs = verdicts.between.iter().map(|pair| Pair {
        from: pair.from.to_string_lossy(),
        from_base64: base64_name(&pair.from),
        to: pair.to.to_string_lossy(),
        to_base64: base64_name(&pair.to),
        verdict: PathVerdict::of(pair),
    });
    line(&Report {
        schema: SCHEMA,
        kernel: kernel.into(),
        paths: paths.collect(),
        pairs: pairs.collect(),
    })
}

impl<'a> From<&'a found::Kernel> for Kernel<'a> {
    fn from(kernel: &'a found::Kernel) -> Kernel<'a> {
        let operations = |supported| {
            let operations = kernel.io_uring.operations.iter();
            operations.filter(|one| one.supported == supported).map(|one| one.name).collect()
        };
        let limits = &kernel.limits;
        Kernel {
            release: &kernel.release,
            io_uring: IoUring {
                available: Answer::from(&kernel.io_uring.available),
                disabled: kernel.io_uring.disabled,
                supported: operations(true),
                unsupported: operations(false),
            },
            msg_zerocopy: kernel
                .msg_zerocopy
                .iter()
                .map(|one| Socket {
                    socket: one.protocol.name(),
                    answer: Answer::from(&one.answer),
                })
                .collect(),
            limits: Limits {
                pipe_max_bytes: limits.pipe_max_bytes,
                optmem_max_bytes: limits.optmem_max_bytes,
                memlock_soft_bytes: limits.memlock.soft,
                memlock_hard_bytes: limits.memlock.hard,
                open_files_soft: limits.open_files.soft,
                open_files_hard: limits.open_files.hard,
            },
        }
    }
}

fn path_object<'a>(
    path: &'a Path,
    storage: &'a Result<found::Storage, Failure>,
    verdict: Option<PathVerdict>,
) -> PathReport<'a> {
    PathReport {
        path: path.to_string_lossy(),
        path_base64: base64_name(path),
        outcome: match storage {
            Ok(storage) => Outcome::Answered { verdict, storage: Box::new(storage.into()) },
            Err(failure) => Outcome::Failed { error: Problem::from(failure) },
        },
    }
}

impl<'a> From<&'a found::Storage> for Storage<'a> {
    fn from(storage: &'a found::Storage) -> Storage<'a> {
        let name = storage.device.name.as_str();
        let sharing = match &storage.copy_file_range {
            found::Answer::Yes(sharing) => Some(sharing.name()),
            _ => None,
        };
        Storage {
            directory: storage.directory.to_string_lossy(),
            directory_base64: base64_name(&storage.directory),
            filesystem: storage.filesystem.to_string(),
            device: Device {
                name: Some(name).filter(|name| !name.is_empty()),
                kind: storage.device.kind.name(),
                rotational: storage.device.rotational,
                transport: storage.device.transport,
            },
            reflink: Answer::from(&storage.reflink),
            copy_file_range: CopyFileRange {
                answer: Answer::from(&storage.copy_file_range),
                sharing,
            },
            direct: Direct {
                write: Answer::from(&storage.direct_write),
                memory_alignment_bytes: storage.direct_alignment.map(|align| align.memory_bytes),
                offset_alignment_bytes: storage.direct_alignment.map(|align| align.offset_bytes),
            },
            holes: Answer::from(&storage.holes),
            seek_hole: Answer::from(&storage.seek_hole),
            punch_hole: Answer::from(&storage.punch_hole),
            fallocate: Answer::from(&storage.fallocate),
            unnamed_files: Answer::from(&storage.unnamed_files),
            rename_noreplace: Answer::from(&storage.rename_noreplace),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn kernel_and_paths_are_one_line_that_starts_with_the_schema() {
        let paths = [PathBuf::from("/"), PathBuf::from("/nonexistent/x")];
        let storages = paths
            .iter()
            .map(|path| found::storage(path).map_err(|error| Failure::from(&error)))
            .collect::<Vec<_>>();
        let text = report(found::kernel(), &paths, &storages, &Verdicts::of(&storages));
        assert!(text.starts_with("{\"schema\":1,"), "{text}");
        assert_eq!(text.find('\n'), Some(text.len() - 1));
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["kernel"]["release"], json!(found::kernel().release));
        assert_eq!(report["paths"][0]["path"], "/");
        assert!(report["paths"][0]["reflink"]["answer"].is_string());
        assert!(report["paths"][0]["error"].is_null());
        assert_eq!(report["pairs"], json!([]));
        assert_eq!(report["paths"][1]["error"]["errno_name"], "ENOENT");
    }

    #[test]
    fn answers_keep_their_reason() {
        let reason = found::AnswerReason::StoppedBy(uncopy::Obstacle::OtherFilesystem);
        let refused = found::Answer::<()>::No { errno: Some(Errno::EXDEV), reason };
        assert_eq!(
            serde_json::to_value(Answer::from(&refused)).unwrap(),
            json!({
                "answer": "no", "errno": 18, "errno_name": "EXDEV",
                "reason": "source and destination lie on different filesystems",
                "code": "other_filesystem",
            })
        );
    }
}
