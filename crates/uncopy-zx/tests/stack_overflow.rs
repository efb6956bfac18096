//! Rust's handler, which reports stack overflows, was installed first and still works.
#![cfg(target_os = "linux")]

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use uncopy_zx::calls::bridge::uncopy_zx_fault_mode;

const IN_CHILD: &str = "UNCOPY_ZX_TEST_OVERFLOW";
const HANDLERS: u32 = 1;

#[allow(unconditional_recursion)]
fn recurse(depth: u64) -> u64 {
    let space = std::hint::black_box([depth; 64]);
    recurse(depth + 1) + space[0]
}

#[test]
fn a_stack_overflow_is_still_reported_of() {
    if std::env::var_os(IN_CHILD).is_some() {
        assert_eq!(uncopy_zx_fault_mode(HANDLERS), 0);
        recurse(0);
    }
    let own = std::env::current_exe().unwrap();
    let output = Command::new(own)
        .args(["--exact", "a_stack_overflow_is_still_reported_of", "--nocapture"])
        .env(IN_CHILD, "1")
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(reported.contains("has overflowed its stack"), "{reported}");
    assert_eq!(output.status.signal(), Some(6), "{}", output.status);
}
