//! Calls that a signal interrupts: each is made again, and nothing is lost or copied twice.

use testbed::{CallPattern, Case, Intercept, Place, SystemCall, WatchedCall};
use uncopy::Errno;

use crate::both::{Form, cases_over};
use crate::cp::faults::content;
use crate::cp::witnessed::{Pair, WRITE_CALLS};
use crate::cp::{COPY_FILE_RANGE, Method, READ_WRITE, SENDFILE, SPLICE, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    cases_over![
        Form::ALL;
        [] an_interrupted_call_is_made_again,
    ]
}

fn an_interrupted_call_is_made_again(form: Form) {
    let reads = [SystemCall::PREAD64, SystemCall::READ, SystemCall::PREADV, SystemCall::PREADV2];
    let calls: [(Method, &[SystemCall]); 5] = [
        (COPY_FILE_RANGE, &[SystemCall::COPY_FILE_RANGE]),
        (SENDFILE, &[SystemCall::SENDFILE]),
        (SPLICE, &[SystemCall::SPLICE]),
        (READ_WRITE, &reads),
        (READ_WRITE, &WRITE_CALLS),
    ];
    for (method, calls) in calls {
        let pair = Pair::of(form, Place::Disk, &content());
        let directories = [pair.from.path().to_owned(), pair.to.path().to_owned()];
        let data = CallPattern::of(calls).when(move |call: &WatchedCall| {
            directories.iter().any(|directory| call.touches(directory))
        });
        for nth in 1.. {
            pair.clear();
            let fault = data.clone().nth(nth).fails(Errno::EINTR);
            let Intercept { run, hits, .. } = pair.command(cp_by(method)).run_with([fault]);
            let _ = pair.receipt(&run);
            pair.assert_copied();
            if hits == 0 {
                assert!(nth > 1, "{method:?}");
                break;
            }
        }
    }
}
