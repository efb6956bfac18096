//! The side that copies asks, and shows nothing of its own files: what it sends is recorded.

use std::fs;
use std::time::SystemTime;

use testbed::Case;

use super::{Direction, Machines, succeeded};

/// Text in files of the destination.
const SECRET: &str = "a secret of the destination";
/// Text in files of the source.
const SHOWN: &str = "what the source shows, it sends";

/// Whether a text is in what was recorded.
fn has(machines: &Machines, record: &str, text: &str) -> bool {
    let bytes = fs::read(machines.aside.join(record)).unwrap();
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

/// Copies over files of the same names and lengths, in ways that compare them.
fn the_side_that_copies_shows_nothing_of_its_files() {
    for direction in Direction::BOTH {
        for flags in [
            &["-r"][..],
            &["-r", "--checksum"],
            &["-r", "--update"],
            &["-r", "--size-only", "--delete"],
            &["-r", "--resume", "--verify", "--json"],
            &["-a", "--backup=numbered", "-v"],
            &["-r", "--link-dest=../earlier"],
        ] {
            let machines = Machines::new();
            let (from, to) = (machines.source(direction), machines.destination(direction));
            for number in 0..4 {
                // Short ones come with their listing, long ones do not.
                let repeated = [1, 100, 3_000, 40_000][number];
                for directory in ["copy/src", "earlier/src"] {
                    fs::create_dir_all(to.join(directory)).unwrap();
                    let secret = format!("{SECRET:31}").repeat(repeated);
                    let path = to.join(directory).join(format!("{number}"));
                    fs::write(&path, secret).unwrap();
                    // Older than the source.
                    fs::File::open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
                }
                fs::create_dir_all(from.join("src")).unwrap();
                fs::write(from.join("src").join(format!("{number}")), SHOWN.repeat(repeated))
                    .unwrap();
            }
            fs::write(to.join("copy/src/stranger"), SECRET).unwrap();
            machines.log_in_with(&format!(
                "tee '{0}/to-far' | sh -c \"$*\" | tee '{0}/from-far'; exit",
                machines.aside.path().display()
            ));
            let run = machines.cp().args(flags).arg(direction.source("src"));
            succeeded(&run.arg(direction.destination("copy")).run());
            let (asked, answered) = match direction {
                Direction::Push => ("from-far", "to-far"),
                Direction::Pull => ("to-far", "from-far"),
            };
            let what = format!("{direction:?} {flags:?}");
            assert!(!has(&machines, asked, SECRET), "{what}");
            assert!(!has(&machines, answered, SECRET), "{what}");
            // The record has what crossed. Files that are as long as the others are not read by `--size-only`.
            assert_eq!(has(&machines, answered, SHOWN), !flags.contains(&"--size-only"), "{what}");
            assert!(!has(&machines, asked, SHOWN), "{what}");
        }
    }
}

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![[] the_side_that_copies_shows_nothing_of_its_files]
}
