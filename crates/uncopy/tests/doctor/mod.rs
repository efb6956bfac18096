//! Tests the doctor with real conditions: each is created, found with its evidence, and removed. The
//! prediction must agree with the reports that a sender gets.

mod files;
mod neighbour;
mod network;
mod network_rows;
mod row;
mod truth;
mod truth_rows;
mod truth_sockets;

/// The table in the book is the table of the tests.
fn every_row_is_in_the_book() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor.md");
    let book = std::fs::read_to_string(path).unwrap();
    let table = network::lines() + &files::lines();
    assert!(book.contains(&table), "docs/doctor.md lacks this table:\n{table}");
}

pub(crate) fn cases() -> Vec<testbed::Case> {
    let book = testbed::cases![[] every_row_is_in_the_book];
    [book, files::cases(), network::cases(), truth::cases()].into_iter().flatten().collect()
}
