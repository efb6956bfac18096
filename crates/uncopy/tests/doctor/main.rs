//! Tests the doctor with real conditions: each is created, found with its evidence, and removed. The
//! prediction must agree with the reports that a sender gets.
#![cfg(all(target_os = "linux", not(shuttle)))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod files;
mod neighbour;
mod network;
mod network_rows;
mod row;
mod truth;
mod truth_rows;
mod truth_sockets;

use std::process::ExitCode;

/// The table in the book is the table of the tests.
fn every_row_is_in_the_book() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor.md");
    let book = std::fs::read_to_string(path).unwrap();
    let table = network::lines() + &files::lines();
    assert!(book.contains(&table), "docs/doctor.md lacks this table:\n{table}");
}

fn main() -> ExitCode {
    testbed::run(env!("CARGO_TARGET_TMPDIR"), || {
        let book = testbed::cases![[] every_row_is_in_the_book];
        [book, files::cases(), network::cases(), truth::cases()].into_iter().flatten().collect()
    })
}
