//! Directory of a submission: the script of its jobs, and the list of its units.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use uncopy_unit::format::UnitNumber;

use crate::error::FleetError;

/// Directory of all submissions, in that of the plan.
const SLURM: &str = "slurm";

/// Name of the script.
pub(super) const SCRIPT_FILE: &str = "job.sh";

/// Name of the list of units.
pub(super) const LIST_FILE: &str = "units";

const NEXT: &str = "submit where the directory of the plan may be written";

/// Script of both jobs.
pub(super) const SCRIPT: &str = r#"#!/bin/sh
# Does units of a plan of uncopy.
#   job.sh UNCOPY PLAN LIST COUNT    as element N of an array: the lines from N * COUNT on of a list of units
#   job.sh UNCOPY PLAN UNIT          one unit
# Each unit has its turn, whatever became of those before it. The script ends with the exit code of the first that was not
# done. A unit with a record in the ledger is not done again, so that a job may be requeued at any time.
uncopy=$1 plan=$2 code=0

do_unit() {
    "$uncopy" unit run -q "$plan/units/$1.jsonl" </dev/null
    ended=$?
    [ "$ended" -eq 0 ] && return
    echo "unit $1: exit code $ended" >&2
    [ "$code" -ne 0 ] || code=$ended
}

if [ $# -eq 3 ]; then
    do_unit "$3"
    exit "$code"
fi
first=$((SLURM_ARRAY_TASK_ID * $4 + 1))
for unit in $(sed -n "$first,$((first + $4 - 1))p" <"$3"); do
    do_unit "$unit"
done
exit "$code"
"#;

/// A directory for one submission.
#[derive(Debug)]
pub(super) struct Submission {
    path: PathBuf,
}

impl Submission {
    /// Returns the place of a submission that is not made.
    pub(super) fn unmade(plan: &Path, name: &OsStr) -> Submission {
        Submission { path: plan.join(SLURM).join(name) }
    }

    /// Makes one with the next free number.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn make(plan: &Path, units: &[UnitNumber]) -> Result<Submission, FleetError> {
        let all = plan.join(SLURM);
        fs::create_dir_all(&all).map_err(FleetError::system("make", &all, NEXT))?;
        let submission = make_numbered(&all)?;
        let list: String = units.iter().map(|unit| format!("{unit}\n")).collect();
        for (name, text) in [(SCRIPT_FILE, SCRIPT), (LIST_FILE, &list)] {
            let file = submission.path.join(name);
            fs::write(&file, text).map_err(FleetError::system("write", &file, NEXT))?;
        }
        Ok(submission)
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn make_numbered(all: &Path) -> Result<Submission, FleetError> {
    let mut number = 1_u32;
    loop {
        let path = all.join(format!("{number:04}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(Submission { path }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(FleetError::system("make", &path, NEXT)(error)),
        }
    }
}
