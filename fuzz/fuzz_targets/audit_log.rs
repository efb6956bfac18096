//! Input: an audit log. Its hash chain is valid, or the first invalid entry is reported.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uncopy_cli::Exit;

fuzz_target!(|data: &[u8]| {
    let exit = uncopy_fuzz::run_on_file(&["audit", "verify"], data);
    assert!(matches!(exit, Exit::Success | Exit::Failure | Exit::VerificationFailed), "{exit:?}");
    // An open end is an error for the first one alone.
    let summed_up = uncopy_fuzz::run_on_file(&["audit", "stats"], data);
    assert!(summed_up == Exit::Success || (summed_up, exit) == (Exit::Failure, Exit::Failure));
});
